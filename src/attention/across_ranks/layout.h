// Layouts as the passes across ranks need them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heed/distributed_attention.h"

namespace heed::distributed {

// The layout in which every block [begins[n], begins[n + 1]) lies on one rank: that of its first position in `layout`.
// `begins` ascends from 0 to the length, both included.
[[nodiscard]] SequenceLayout aligned(const SequenceLayout& layout, std::span<const int64_t> begins);

// The runs of all ranks in the order of the positions.
struct OwnedRun {
  Run run;
  int rank = 0;
  int64_t first_row = 0;  // where it begins among the rows of its rank
};
[[nodiscard]] std::vector<OwnedRun> ordered_runs(const SequenceLayout& layout);

// redistribute(), which adds the bytes sent to `sent`. Returns `rows` itself where the layouts are equal; an undefined
// tensor stays one.
[[nodiscard]] Tensor redistribute(Communicator& ranks, const Tensor& rows, const SequenceLayout& from,
                                  const SequenceLayout& to, int64_t& sent);

// As messages write it: "[0 to 10] [10 to 20, 30 to 40]".
[[nodiscard]] std::string text_of(const SequenceLayout& layout);

// (B, H, L, D) with another L.
[[nodiscard]] Shape with_rows(Shape shape, int64_t rows);

}  // namespace heed::distributed
