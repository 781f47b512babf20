// Matrix products and table look-ups with their gradients. Weights' gradients are added where they are kept.
#include "autograd/tape.h"

namespace heed {

using tape::dense;
using tape::Gradients;
using tape::make;
using tape::recording;

Value matmul(const Value& a, const Value& b) {
  Tensor data = ops::matmul(a.data(), b.data());
  if (!recording({&a, &b})) return Value(std::move(data));
  const Tensor saved_a = b.requires_grad() ? a.data() : Tensor();
  const Tensor saved_b = a.requires_grad() ? b.data() : Tensor();
  const bool batch_summed = a.data().rank() > b.data().rank();  // one matrix b for all of a's batch
  return make(std::move(data), {&a, &b}, [saved_a, saved_b, batch_summed](const Tensor& d, Gradients& into) {
    if (into.wanted(0)) into.give(0, ops::matmul(d, saved_b, {.transpose_b = true}));
    if (!into.wanted(1)) return;
    if (into.fresh(1) && !batch_summed) {
      into.give(1, ops::matmul(saved_a, d, {.transpose_a = true}));
    } else {
      ops::matmul_into(into.sum(1), saved_a, d, {.transpose_a = true, .accumulate = true});
    }
  });
}

Value linear(const Value& x, const Value& weight, const Value& bias, Activation activation) {
  const bool recorded = recording({&x, &weight, &bias});
  const Tensor input = dense(x);
  if (!recorded) {
    if (const auto packed = weight.packed()) {
      return Value(ops::linear(input, *packed, bias.defined() ? bias.data() : Tensor(),
                               {.activation = activation, .save = false})
                       .output);
    }
  }
  const Tensor rows = tape::unpacked(weight);
  ops::LinearResult forward =
      ops::linear(input, rows, bias.defined() ? bias.data() : Tensor(), {.activation = activation, .save = recorded});
  if (!recorded) return Value(std::move(forward.output));
  // Captured one by one: LinearResult would keep the output alive as well.
  return make(std::move(forward.output), {&x, &weight, &bias},
              [input, weight = rows, saved = std::move(forward.saved), activation](const Tensor& d, Gradients& into) {
                Tensor d_x = ops::linear_backward(d, input, weight,
                                                  {.activation = activation,
                                                   .saved = saved,
                                                   .d_weight = into.sum(1),
                                                   .d_bias = into.sum(2),
                                                   .want_input = into.wanted(0)});
                if (into.wanted(0)) into.give(0, std::move(d_x));
              });
}

Value embedding(const Tensor& ids, const Value& weight, const EmbeddingOptions& options) {
  const auto packed = weight.packed();
  // In the packed weight a row lies in pieces: 0.25 us for 256 numbers where it is 0.04, and 7 for 1,024 of a table
  // that is larger than the cache. The product with that weight takes 100 to 600 times as long, and rows as much
  // memory.
  Tensor data = packed == nullptr ? ops::embedding(ids, weight.data(), options) : ops::embedding(ids, *packed, options);
  return make(std::move(data), {&weight}, [ids, options](const Tensor& d, Gradients& into) {
    ops::embedding_backward_into(into.sum(0), d, ids, options);
  });
}

}  // namespace heed
