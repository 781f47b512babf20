// Functions that move or re-read elements, with their gradients.
#include <numeric>

#include "autograd/tape.h"
#include "heed/error.h"

namespace heed {

using tape::dense;
using tape::Gradients;
using tape::make;

namespace {

int axis_from_start(int axis, int rank, const char* function) {
  const int positive = axis < 0 ? axis + rank : axis;
  require(positive >= 0 && positive < rank, function, "an axis of a value of rank ", rank, "; found ", axis);
  return positive;
}

// Writes or adds a part into its place.
void put(const Tensor& place, const Tensor& part, bool add) {
  if (add) {
    ops::add_into(place, part);
  } else {
    ops::copy_into(place, part);
  }
}

// Where heads lie in x (B, L, C).
struct HeadsPlace {
  int64_t count, size, offset;

  // True where a head's columns are a whole entry of (B, L, C/D, D): strides can say so.
  [[nodiscard]] bool viewable(const Tensor& x) const {
    return size > 0 && x.is_contiguous() && x.size(2) % size == 0 && offset % size == 0;
  }
  [[nodiscard]] Tensor view(const Tensor& x) const {  // -> (B, H, L, D)
    const Tensor columns = x.reshape({x.size(0), x.size(1), x.size(2) / size, size});
    return columns.slice(2, offset / size, offset / size + count).transpose(1, 2);
  }
  [[nodiscard]] Tensor copy(const Tensor& x) const {  // -> (B, H, L, D)
    const Tensor columns = ops::contiguous(x.slice(2, offset, offset + count * size));
    return columns.reshape({x.size(0), x.size(1), count, size}).transpose(1, 2);
  }
};

}  // namespace

Value reshape(const Value& x, const Shape& shape) {
  return make(dense(x).reshape(shape), {&x}, [before = x.shape()](const Tensor& d, Gradients& into) {
    into.pass(0, ops::contiguous(d).reshape(before));
  });
}

Value transpose(const Value& x, int a, int b) {
  return make(ops::transpose(x.data(), a, b), {&x},
              [a, b](const Tensor& d, Gradients& into) { into.pass(0, d.transpose(a, b)); });
}

Value slice(const Value& x, int axis, int64_t begin, int64_t end) {
  const int from_start = axis_from_start(axis, x.data().rank(), "slice");
  return make(ops::contiguous(x.data().slice(from_start, begin, end)), {&x},
              [from_start, begin, end](const Tensor& d, Gradients& into) {
                const auto [whole, add] = into.part(0, from_start, begin, end);
                put(whole.slice(from_start, begin, end), d, add);
              });
}

Value concat(std::span<const Value> parts, int axis) {
  require(!parts.empty(), "concat", "at least one part; found none");
  const std::vector<Value> inputs(parts.begin(), parts.end());
  std::vector<Tensor> tensors;
  tensors.reserve(inputs.size());
  for (const Value& part : inputs) tensors.push_back(part.data());
  const int from_start = axis_from_start(axis, tensors[0].rank(), "concat");
  Tensor data = ops::concat(tensors, from_start);
  if (!tape::recording(inputs)) return Value(std::move(data));
  std::vector<int64_t> sizes;
  sizes.reserve(tensors.size());
  for (const Tensor& tensor : tensors) sizes.push_back(tensor.size(from_start));
  return tape::make_recorded(std::move(data), inputs, [sizes, from_start](const Tensor& d, Gradients& into) {
    int64_t begin = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      into.pass(i, d.slice(from_start, begin, begin + sizes[i]));  // the slices do not overlap
      begin += sizes[i];
    }
  });
}

std::vector<Value> split(const Value& x, int axis, std::span<const int64_t> sizes) {
  const int64_t extent = x.size(axis);
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  require(total == extent, "split", "sizes that add up to ", extent, "; found a sum of ", total);
  std::vector<Value> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    parts.push_back(slice(x, axis, begin, begin + size));
    begin += size;
  }
  return parts;
}

Value heads(const Value& x, int64_t head_count, int64_t head_size, int64_t offset) {
  require(x.data().rank() == 3, "heads", "x of shape (B, L, C); found ", x.shape());
  require(head_count >= 0 && head_size >= 0 && offset >= 0 && offset + head_count * head_size <= x.size(2), "heads",
          "columns inside ", x.shape(), "; found ", head_count, " heads of ", head_size, " from ", offset);
  const HeadsPlace place{head_count, head_size, offset};
  Tensor data = place.viewable(x.data()) ? place.view(x.data()) : place.copy(x.data());
  const bool whole_columns = offset == 0 && head_count * head_size == x.size(2);
  return make(std::move(data), {&x}, [place, whole_columns](const Tensor& d, Gradients& into) {
    const int64_t end = place.offset + place.count * place.size;
    const Tensor rows = d.transpose(1, 2);
    if (whole_columns && rows.is_contiguous()) {
      into.pass(0, rows.reshape({rows.size(0), rows.size(1), end}));
      return;
    }
    const auto [whole, add] = into.part(0, 2, place.offset, end);
    if (place.viewable(whole)) {
      put(place.view(whole), d, add);
    } else {
      const Shape shape = {whole.size(0), whole.size(1), place.count * place.size};
      put(whole.slice(2, place.offset, end), ops::contiguous(rows).reshape(shape), add);
    }
  });
}

Value merge_heads(const Value& x) {
  require(x.data().rank() == 4, "merge_heads", "x of shape (B, H, L, D); found ", x.shape());
  const Tensor rows = x.data().transpose(1, 2);  // (B, L, H, D)
  const Shape by_head = rows.shape();
  Tensor data = ops::contiguous(rows).reshape({by_head[0], by_head[1], by_head[2] * by_head[3]});
  return make(std::move(data), {&x}, [by_head](const Tensor& d, Gradients& into) {
    into.pass(0, ops::contiguous(d).reshape(by_head).transpose(1, 2));
  });
}

}  // namespace heed
