// Additive attention: the f32 tiles with tanh in place of the dot product.
#include "attention/backward/backward.h"
#include "attention/forward/forward.h"
#include "attention/observe/taps.h"
#include "heed/attention_variants.h"
#include "heed/error.h"

namespace heed {
namespace {

AttentionProblem additive_problem(std::string_view function, const Tensor& query, const Tensor& key,
                                  const Tensor& value, const Tensor& weight, const AttentionOptions& options) {
  require(!options.scale, function, "no scale (it belongs into weight); found one");
  AttentionProblem problem = check_attention(function, query, key, value, options, DType::f32);
  problem.scale = 1;
  require(weight.defined() && weight.dtype() == DType::f32 &&
              (weight.shape() == Shape{problem.size} || weight.shape() == Shape{problem.heads, problem.size}),
          function, "weight (D) = ", Shape{problem.size}, " or (H, D) = ", Shape{problem.heads, problem.size},
          " in f32; found ",
          weight.defined() ? to_string(weight.shape()) + " in " + std::string(to_string(weight.dtype())) : "none");
  problem.additive = weight.expand({problem.heads, problem.size});
  return problem;
}

}  // namespace

AttentionResult attention_additive(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& weight,
                                   const AttentionOptions& options) {
  const AttentionProblem problem = additive_problem("attention_additive", query, key, value, weight, options);
  check_taps("attention_additive", problem);
  return run_attention("attention_additive", problem, query, {key, value});
}

AttentionGradients attention_additive_backward(const Tensor& d_output, const Tensor& query, const Tensor& key,
                                               const Tensor& value, const Tensor& weight,
                                               const AttentionResult& forward, const AttentionOptions& options,
                                               const AttentionWantGradients& want) {
  constexpr std::string_view kName = "attention_additive_backward";
  const AttentionProblem problem = additive_problem(kName, query, key, value, weight, options);
  AttentionGradients gradients =
      run_attention_backward(kName, problem, DType::f32, d_output, query, key, value, forward, want);
  gradients.additive_weight = gradients.additive_weight.reshape(weight.shape());
  return gradients;
}

}  // namespace heed
