// Where the tokens of a data set lie: in memory, or in files that are larger than memory. Data sets read both through
// these, so that where the tokens lie changes no batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "heed/text.h"

namespace heed::train {

using text::Ids;

// Sentences with one side, or with two (translation).
class Sentences {
 public:
  virtual ~Sentences() = default;
  [[nodiscard]] virtual int64_t count() const = 0;
  // Tokens of the longer side of the sentences from `first` on.
  virtual void lengths(int64_t first, std::span<int64_t> lengths) const = 0;
  // Appends the ids of one sentence to `to`.
  virtual void append(int64_t sentence, int side, Ids& to) const = 0;
  // Of all ids of side 0, then of side 1: checksum_of() of the sides.
  [[nodiscard]] virtual uint32_t checksum() const = 0;
};

// One long text.
class Stream {
 public:
  virtual ~Stream() = default;
  [[nodiscard]] virtual int64_t size() const = 0;
  virtual void read(int64_t first, std::span<int32_t> to) const = 0;
  [[nodiscard]] virtual uint32_t checksum() const = 0;  // checksum_of_stream() of its ids
};

[[nodiscard]] std::shared_ptr<const Sentences> sentences_in_memory(std::vector<std::vector<Ids>> sides);
[[nodiscard]] std::shared_ptr<const Stream> stream_in_memory(Ids stream);

[[nodiscard]] uint32_t checksum_of(const std::vector<Ids>& sequences, uint32_t start = 0);
[[nodiscard]] uint32_t checksum_of_stream(std::span<const int32_t> ids, uint32_t start = 0);

}  // namespace heed::train
