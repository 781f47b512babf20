// Copies that change the layout.
#include "heed/ops.h"
#include "ops/checks.h"

namespace heed::ops {
namespace {

int checked_axis(int axis, int rank, std::string_view function) {
  require(axis >= -rank && axis < rank, function, "an axis of a tensor of rank ", rank, "; found ", axis);
  return axis < 0 ? axis + rank : axis;
}

}  // namespace

Tensor contiguous(const Tensor& x) {
  if (x.is_contiguous()) return x;
  require_f32(x, "contiguous", "x");
  Tensor out = Tensor::empty(x.shape());
  copy_into(out, x);
  return out;
}

Tensor transpose(const Tensor& x, int a, int b) {
  require_f32(x, "transpose", "x");
  Tensor out = Tensor::empty(x.transpose(a, b).shape());
  copy_into(out, x.transpose(a, b));
  return out;
}

Tensor concat(std::span<const Tensor> parts, int axis_given) {
  require(!parts.empty(), "concat", "at least one part; found none");
  for (const Tensor& part : parts) require_f32(part, "concat", "each part");
  const int axis = checked_axis(axis_given, parts[0].rank(), "concat");
  Shape shape = parts[0].shape();
  shape[axis] = 0;
  for (const Tensor& part : parts) {
    bool same = part.rank() == shape.rank();
    for (int i = 0; same && i < shape.rank(); ++i) same = i == axis || part.size(i) == shape[i];
    require(same, "concat", "parts of one shape but for axis ", axis, "; found ", parts[0].shape(), " and ",
            part.shape());
    shape[axis] += part.size(axis);
  }
  Tensor out = Tensor::empty(shape);
  int64_t begin = 0;
  for (const Tensor& part : parts) {
    copy_into(out.slice(axis, begin, begin + part.size(axis)), part);
    begin += part.size(axis);
  }
  return out;
}

std::vector<Tensor> split(const Tensor& x, int axis_given, std::span<const int64_t> sizes) {
  require_f32(x, "split", "x");
  const int axis = checked_axis(axis_given, x.rank(), "split");
  int64_t total = 0;
  for (const int64_t size : sizes) {
    require(size >= 0, "split", "sizes of at least 0; found ", size);
    total += size;
  }
  require(total == x.size(axis), "split", "sizes that sum to ", x.size(axis), "; found ", total);
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    const Tensor part = x.slice(axis, begin, begin + size);
    Tensor copy = Tensor::empty(part.shape());
    copy_into(copy, part);
    parts.push_back(copy);
    begin += size;
  }
  return parts;
}

}  // namespace heed::ops
