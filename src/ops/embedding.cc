// Rows of a table by id, and their gradient.
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

}  // namespace

Tensor embedding(const Tensor& ids_tensor, const Tensor& weight_tensor, const EmbeddingOptions& options) {
  const Tensor weight = dense(weight_tensor, "embedding", "weight");
  require(weight.rank() == 2, "embedding", "weight of shape (V, E); found ", weight.shape());
  const Tensor ids = checked_ids(ids_tensor, weight.size(0), "embedding");
  Shape shape = ids.shape();
  shape.push_back(weight.size(1));
  Tensor out = Tensor::empty(shape);
  kernels::gather_rows(weight.data<float>(), ids.data<int32_t>(), ids.numel(), weight.size(1), options.scale,
                       options.padding_id, out.data<float>());
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
