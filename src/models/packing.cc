#include "models/packing.h"

#include <algorithm>

namespace heed::models {

Packing::Packing(const Tensor& lengths, int64_t length)
    : starts_(Tensor::empty({lengths.size(0) + 1}, DType::i32)), length_(length) {
  int32_t* const start = starts_.data<int32_t>();
  start[0] = 0;
  for (int64_t b = 0; b < lengths.size(0); ++b) start[b + 1] = start[b] + static_cast<int32_t>(lengths.at({b}));
  positions_ = Tensor::empty({1, start[lengths.size(0)]}, DType::i32);
  int32_t* const position = positions_.data<int32_t>();
  for (int64_t b = 0; b < lengths.size(0); ++b) {
    for (int32_t t = start[b]; t < start[b + 1]; ++t) position[t] = t - start[b];
  }
}

Tensor Packing::pack(const Tensor& ids) const {
  const Tensor rows = ids.contiguous(), packed = Tensor::empty(positions_.shape(), DType::i32);
  const int32_t* const start = starts_.data<int32_t>();
  for (int64_t b = 0; b + 1 < starts_.size(0); ++b) {
    std::copy_n(rows.data<int32_t>() + b * length_, start[b + 1] - start[b], packed.data<int32_t>() + start[b]);
  }
  return packed;
}

Value Packing::unpack(const Value& x) const {
  const Tensor starts = starts_;
  const int64_t batch = starts.size(0) - 1, length = length_, width = x.size(2), rows = x.size(1);
  const Tensor from = x.data().contiguous(), to = Tensor::zeros({batch, length, width});
  const auto each = [=](const Tensor& packed, const Tensor& padded, bool pack) {
    const int32_t* const start = starts.data<int32_t>();
    for (int64_t b = 0; b < batch; ++b) {
      float* const one = packed.data<float>() + static_cast<int64_t>(start[b]) * width;
      float* const other = padded.data<float>() + b * length * width;
      const int64_t count = (static_cast<int64_t>(start[b + 1]) - start[b]) * width;
      std::copy_n(pack ? other : one, count, pack ? one : other);
    }
  };
  each(from, to, false);
  return Value::record(to, {x}, [=](const Tensor& d) {
    const Tensor packed = Tensor::empty({1, rows, width});
    each(packed, d.contiguous(), true);
    return std::vector<Tensor>{packed};
  });
}

}  // namespace heed::models
