#include "attention/call/call.h"

namespace heed {
namespace {

const kernels::Engine& engine_for(const AttentionProblem& problem, bool bf16, bool backward) {
  const AttentionOptions::Want& want = problem.options.want;
  return kernels::choose_engine({.rows = problem.group() * problem.queries,
                                 .backward = backward,
                                 .bf16 = bf16,
                                 .additive = problem.additive.defined(),
                                 // Decoding has the whole sequence.
                                 .every_score = want.weights || want.scores || problem.part});
}

}  // namespace

Tensor empty_rows(const Shape& shape, DType dtype) {
  return Tensor::empty({shape[0], shape[2], shape[1], shape[3]}, dtype).transpose(1, 2);
}

const kernels::Engine& forward_engine(const AttentionProblem& problem, bool bf16) {
  return engine_for(problem, bf16, false);
}
const kernels::Engine& backward_engine(const AttentionProblem& problem, bool bf16) {
  return engine_for(problem, bf16, true);
}

}  // namespace heed
