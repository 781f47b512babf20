// Which process owns which numbers of the row of parameters: it adds up their gradients and keeps their moments.
#pragma once

#include <cstdint>
#include <vector>

#include "train/flat_parameters.h"

namespace heed::train {

struct Part {
  int owner = 0;
  int64_t begin = 0, end = 0;  // in the row
  int64_t local = 0;           // where it begins among the owner's numbers, which lie behind each other
};

// The row in parts of about one size, which ranks own in turn. Each has several where they are large, so that gradients
// which become whole early, and those which become whole at the end of the backward pass, go to all ranks alike.
class Parts {
 public:
  Parts(const FlatParameters& flat, int ranks);

  [[nodiscard]] const std::vector<Part>& all() const { return all_; }  // in the order of the row
  [[nodiscard]] std::vector<Part> of(int rank) const;
  [[nodiscard]] int64_t size_of(int rank) const { return sizes_[static_cast<size_t>(rank)]; }

 private:
  std::vector<Part> all_;
  std::vector<int64_t> sizes_;
};

// The numbers of one rank's parts: behind each other, or where they are in a whole row.
struct OwnNumbers {
  Tensor numbers;
  bool whole_row = false;

  // [begin, end) of the row, which lies in `part`.
  [[nodiscard]] Tensor at(const Part& part, int64_t begin, int64_t end) const {
    const int64_t first = whole_row ? begin : part.local + begin - part.begin;
    return numbers.slice(0, first, first + end - begin);
  }
};

}  // namespace heed::train
