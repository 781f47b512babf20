// Output: from states to logits, through the transposed embedding where the two are tied.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "heed/models.h"
#include "heed/ops.h"

namespace heed::models {

class Output : public nn::Module {
 public:
  // embedding (V, E): the table the output is tied to if the configuration says so.
  Output(const Config& config, const Value& embedding, nn::Initializer& init);

  [[nodiscard]] Value operator()(const Value& x) const {
    return linear(scaled(x), weight_, bias_);
  }  // (..., E) -> (..., V)
  // cross_entropy of those logits, which are never all in memory.
  [[nodiscard]] Value loss(const Value& x, const Tensor& targets, const CrossEntropyOptions& options) const {
    return linear_cross_entropy(scaled(x), weight_, bias_, targets, options);
  }
  [[nodiscard]] Tensor of_last(const Value& x) const;  // (N, L, E) -> the logits of the last position (N, V)
  // The same some rows at a time, as Decoder::step_by_parts() has them.
  void by_parts_of_last(const Value& x, const Decoder::UseLogits& use) const;
  // ops::argmax of these.
  [[nodiscard]] std::vector<int32_t> largest_of_last(const Value& x, std::span<const uint8_t> excluded) const;
  void for_packed(const std::function<void(const Value& weight)>& f) const override { f(weight_); }
  [[nodiscard]] int64_t vocabulary() const { return weight_.size(0); }

 private:
  [[nodiscard]] Value scaled(const Value& x) const { return scale_ == 1 ? x : x * scale_; }
  [[nodiscard]] Value last_position(const Value& x) const;  // (N, L, E) -> (N, E), scaled
  // Null where it does not pay, or has not paid yet: making it takes as long as the logits of some hundred rows.
  [[nodiscard]] std::shared_ptr<const ops::LinearArgmax> argmax_for(int64_t rows) const;

  Value weight_;  // (V, E)
  Value bias_;    // (V) or undefined
  float scale_;
  mutable std::mutex mutex_;  // of the next two
  mutable std::shared_ptr<const ops::LinearArgmax> argmax_;
  mutable int64_t rows_asked_ = 0;  // of largest_of_last()
};

// The initial weights of GPT-2 and BERT in place of those the modules chose: matrices and tables normal(0, 0.02), the
// row of the padding zero.
void initialize_normal(const Model& model, uint64_t seed);
// GPT-2 besides: the projections that add to the residual stream smaller by 1 / sqrt(2 * layers).
void shrink_residual_projections(const Model& model, int64_t layers);

// Lengths (B) i32 of sequences (B, L), each in [0, L]. Throws Error for what is not.
void check_lengths(const Tensor& tokens, const Tensor& lengths);

}  // namespace heed::models
