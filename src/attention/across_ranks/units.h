// Units of keys and values: those that this rank holds, and their messages.
#pragma once

#include <deque>

#include "attention/across_ranks/call.h"

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
  [[nodiscard]] int64_t numbers(const Run& run) const;  // of keys and values

  const WholeCall& call_;
  SequenceLayout layout_;
  Tensor key_, value_, documents_;
  std::vector<int> home_;
  std::vector<int64_t> row_;
};

// Messages that were sent and must live until they have arrived.
class Outgoing {
 public:
  Outgoing(Communicator& ranks, Channel channel, int64_t& sent) : ranks_(ranks), channel_(channel), sent_(sent) {}
  // `time` never decreases.
  void send(const Tensor& message, int to, int64_t time);
  // Waits for all that was sent at `time` or before.
  void wait_for(int64_t time);
  void wait_for_all();
  // Waits until at most `count` are left.
  void wait_until_left(size_t count);

 private:
  struct Message {
    Tensor tensor;
    TransferPtr transfer;
    int64_t time;
  };
  void wait_for_first();

  Communicator& ranks_;
  Channel channel_;
  int64_t& sent_;
  std::deque<Message> messages_;
};

// A message that was asked for.
struct Incoming {
  Tensor tensor;
  TransferPtr transfer;  // null: nothing to wait for
};
[[nodiscard]] Incoming expect(Communicator& ranks, const Tensor& into, int from, Channel channel);

}  // namespace heed::distributed
