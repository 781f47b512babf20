// Rows of a table by id, and their gradient.
#include <algorithm>

#include "base/threads.h"
#include "heed/ops.h"
#include "kernels/rows/copy.h"
#include "ops/checks.h"

namespace heed::ops {
namespace {

Tensor checked_ids(const Tensor& ids_tensor, int64_t vocabulary, std::string_view function) {
  require(ids_tensor.defined() && ids_tensor.dtype() == DType::i32, function, "ids of i32");
  Tensor ids = ids_tensor.contiguous();
  const auto* const id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    require(id[i] >= 0 && id[i] < vocabulary, function, "ids in [0, ", vocabulary, "); found ", id[i], " at position ",
            i);
  }
  return ids;
}

Tensor empty_rows(const Tensor& ids, int64_t columns) {
  Shape shape = ids.shape();
  shape.push_back(columns);
  return Tensor::empty(shape);
}

}  // namespace

Tensor embedding(const Tensor& ids_tensor, const Tensor& weight_tensor, const EmbeddingOptions& options) {
  const Tensor weight = dense(weight_tensor, "embedding", "weight");
  require(weight.rank() == 2, "embedding", "weight of shape (V, E); found ", weight.shape());
  const Tensor ids = checked_ids(ids_tensor, weight.size(0), "embedding");
  Tensor out = empty_rows(ids, weight.size(1));
  kernels::gather_rows(weight.data<float>(), ids.data<int32_t>(), ids.numel(), weight.size(1), options.scale,
                       options.padding_id, out.data<float>());
  return out;
}

Tensor embedding(const Tensor& ids_tensor, const PackedWeight& weight, const EmbeddingOptions& options) {
  const int64_t columns = weight.shape()[1];
  const Tensor ids = checked_ids(ids_tensor, weight.shape()[0], "embedding");
  Tensor out = empty_rows(ids, columns);
  const int32_t* const id = ids.data<int32_t>();
  parallel_for(ids.numel(), std::max<int64_t>(1, 4096 / std::max<int64_t>(1, columns)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   float* const row = out.data<float>() + i * columns;
                   if (id[i] == options.padding_id) {
                     std::fill_n(row, columns, 0.0f);
                     continue;
                   }
                   weight.row(id[i], row);
                   for (int64_t k = 0; k < columns; ++k) row[k] *= options.scale;
                 }
               });
  return out;
}

void embedding_backward_into(const Tensor& d_weight, const Tensor& d_output, const Tensor& ids_tensor,
                             const EmbeddingOptions& options) {
  require_dense(d_weight, "embedding_backward", "d_weight");
  require(d_weight.rank() == 2, "embedding_backward", "d_weight of shape (V, E); found ", d_weight.shape());
  const Tensor ids = checked_ids(ids_tensor, d_weight.size(0), "embedding_backward");
  const Tensor d = dense(d_output, "embedding_backward", "d_output");
  Shape shape = ids.shape();
  shape.push_back(d_weight.size(1));
  require_shape(d, shape, "embedding_backward", "d_output");
  kernels::scatter_add_rows(d_weight.data<float>(), d_weight.size(0), ids.data<int32_t>(), ids.numel(),
                            d_weight.size(1), options.scale, options.padding_id, d.data<float>());
}

}  // namespace heed::ops
