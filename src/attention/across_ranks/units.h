// Units of keys and values: those that this rank holds, and what a message of one looks like.
#pragma once

#include <vector>

#include "attention/across_ranks/call.h"
#include "attention/across_ranks/messages.h"

namespace heed::distributed {

class UnitStore {
 public:
  // Moves the rows of keys, values and documents to the ranks that hold their units.
  UnitStore(Communicator& ranks, const WholeCall& call, const Tensor& key, const Tensor& value, Traffic& traffic);

  [[nodiscard]] const SequenceLayout& layout() const { return layout_; }
  [[nodiscard]] int home(int64_t unit) const { return home_[static_cast<size_t>(unit)]; }
  // Where a unit that this rank holds begins among its rows.
  [[nodiscard]] int64_t row(int64_t unit) const { return row_[static_cast<size_t>(unit)]; }

  [[nodiscard]] UnitKeys own(int64_t unit) const;  // views of what this rank holds
  [[nodiscard]] UnitKeys none() const;             // no keys at all
  // The message that has the unit: (bytes) u8. Keys and values of each group, one after the other, then documents.
  [[nodiscard]] Tensor empty_message(int64_t unit) const;
  [[nodiscard]] Tensor message_of(int64_t unit) const;
  [[nodiscard]] UnitKeys in_message(const Tensor& message, int64_t unit) const;

 private:
  // Bytes of a unit's keys and values, and where its documents begin, which are aligned to their size.
  [[nodiscard]] int64_t bytes_of_rows(const Run& run) const;
  [[nodiscard]] int64_t documents_at(const Run& run) const;

  const WholeCall& call_;
  SequenceLayout layout_;
  Tensor key_, value_, documents_;
  std::vector<int> home_;
  std::vector<int64_t> row_;
};

}  // namespace heed::distributed
