// All parameters of a model in one row of numbers, so that any part of them is one message.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/resume.h"

namespace heed::train {

// The numbers of a row or of a part of it.
[[nodiscard]] inline std::span<float> numbers_of(const Tensor& row) {
  return {row.data<float>(), static_cast<size_t>(row.numel())};
}

class FlatParameters {
 public:
  // Moves the parameters' data into one tensor; they become views of it. Each begins at a multiple of 16 numbers (64
  // bytes); the numbers between them are 0.
  explicit FlatParameters(const NamedParameters& parameters);

  [[nodiscard]] int64_t size() const { return size_; }
  [[nodiscard]] const Tensor& weights() const { return weights_; }
  [[nodiscard]] const NamedParameters& parameters() const { return parameters_; }
  // The part of a row like weights() that belongs to parameter i, in its shape.
  [[nodiscard]] Tensor view(const Tensor& row, size_t i) const;
  [[nodiscard]] int64_t begin_of(size_t i) const { return begins_[i]; }
  [[nodiscard]] int64_t end_of(size_t i) const { return begins_[i] + parameters_[i].second.data().numel(); }

  // Where parameters lie in [begin, end): positions in the row.
  struct Slice {
    size_t parameter = 0;
    int64_t begin = 0, end = 0;
  };
  [[nodiscard]] std::vector<Slice> slices(int64_t begin, int64_t end) const;

  // The row in `parts` parts of about one size: part p is [cuts[p], cuts[p + 1]). Cuts lie between the blocks that
  // ops::block_squares() sums, so that the norm of the gradient does not depend on them.
  [[nodiscard]] std::vector<int64_t> cuts(int64_t parts) const;

  // Numbers a message: enough that its latency does not matter, few enough that several leave while more is computed.
  static constexpr int64_t kMessage = int64_t{1} << 19;
  // Pieces of [begin, end) that are one message each.
  struct Range {
    int64_t begin = 0, end = 0;
  };
  [[nodiscard]] static std::vector<Range> messages(int64_t begin, int64_t end);

 private:
  NamedParameters parameters_;
  std::vector<int64_t> begins_;
  int64_t size_ = 0;
  Tensor weights_;
};

}  // namespace heed::train
