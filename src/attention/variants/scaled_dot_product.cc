// scaled_dot_product_attention: any leading dimensions, brought to (B, H, L, D).
#include "heed/attention.h"
#include "heed/error.h"

namespace heed {
namespace {

Shape leading(const Tensor& x) {
  Shape shape;
  for (int axis = 0; axis + 2 < x.rank(); ++axis) shape.push_back(x.size(axis));
  return shape;
}

// (..., L, D) as (B, 1, L, D): all leading dimensions in one. A view where the memory allows it.
Tensor with_one_batch(const Tensor& x) {
  const int rank = x.rank();
  require(rank >= 2, "scaled_dot_product_attention", "tensors (..., L, D) of rank 2 or more; found ", x.shape());
  if (rank == 4) return x;
  if (rank == 3)
    return Tensor::wrap(x.raw(), {x.size(0), 1, x.size(1), x.size(2)},
                        {x.stride(0), x.stride(1), x.stride(1), x.stride(2)}, x.dtype());
  return x.contiguous().reshape({leading(x).numel(), 1, x.size(-2), x.size(-1)});
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    std::optional<float> scale, const Tensor& mask) {
  require(query.rank() == key.rank() && key.rank() == value.rank(), "scaled_dot_product_attention",
          "query, key and value of one rank; found ", query.shape(), ", ", key.shape(), " and ", value.shape());
  require(query.rank() == 4 || (leading(query) == leading(key) && leading(key) == leading(value)),
          "scaled_dot_product_attention", "the same leading dimensions; found ", query.shape(), ", ", key.shape(),
          " and ", value.shape());
  Shape output = leading(query);
  Tensor broadcast = mask;
  if (mask.defined() && query.rank() != 4) {
    Shape full = leading(query);
    full.push_back(query.size(-2));
    full.push_back(key.size(-2));
    broadcast = with_one_batch(mask.expand(full));
  }
  const bool boolean = mask.defined() && mask.dtype() == DType::boolean;
  // with_one_batch() of rank 3 keeps no reference to the memory; the arguments do, for the length of this call.
  const Tensor q = with_one_batch(query), k = with_one_batch(key), v = with_one_batch(value);
  const Tensor result =
      attention(q, k, v,
                {.scale = scale, .mask = boolean ? broadcast : Tensor(), .bias = boolean ? Tensor() : broadcast})
          .output;
  output.push_back(query.size(-2));
  output.push_back(value.size(-1));
  return query.rank() == 4 ? result : result.contiguous().reshape(output);
}

}  // namespace heed
