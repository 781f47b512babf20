// Output, and what the models share about their inputs and initial weights.
#include "models/output.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"

namespace heed::models {

Output::Output(const Config& config, const Value& embedding, nn::Initializer& init) : scale_(config.output_scale) {
  const int64_t vocabulary = embedding.size(0);
  const float deviation = 1.0f / std::sqrt(static_cast<float>(config.width));
  weight_ = config.tie_output ? embedding : add_parameter("weight", init.normal({vocabulary, config.width}, deviation));
  if (config.output_bias) bias_ = add_parameter("bias", Tensor::zeros({vocabulary}));
}

Value Output::last_position(const Value& x) const {
  const int64_t length = x.size(1);
  require(length > 0, "Decoder::step", "at least one token a row; found none");
  const Value last = length == 1 ? x : slice(x, 1, length - 1, length);
  return scaled(reshape(last, {x.size(0), x.size(2)}));
}

Tensor Output::of_last(const Value& x) const { return linear(last_position(x), weight_, bias_).data(); }

// Of 58,101 tokens 96 rows take 22 MB, in the time that all take together; 48 rows take 10 % longer, because the weight
// comes from memory for each part.
void Output::by_parts_of_last(const Value& x, const Decoder::UseLogits& use) const {
  constexpr int64_t kLeastRows = 96, kLogits = int64_t{1} << 22;
  const Value last = last_position(x);
  const int64_t rows = last.size(0), most = std::max(kLeastRows, kLogits / vocabulary());
  const int64_t parts = (rows + most - 1) / most;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = rows * part / parts, end = rows * (part + 1) / parts;
    use(first, linear(slice(last, 0, first, end), weight_, bias_).data());
  }
}

std::vector<int32_t> Output::largest_of_last(const Value& x, std::span<const uint8_t> excluded) const {
  if (const auto known = argmax_for(x.size(0))) return (*known)(last_position(x).data(), excluded);
  std::vector<int32_t> largest;
  by_parts_of_last(x, [&](int64_t, const Tensor& logits) {
    const std::vector<int32_t> of_part = ops::argmax(logits, excluded);
    largest.insert(largest.end(), of_part.begin(), of_part.end());
  });
  return largest;
}

std::shared_ptr<const ops::LinearArgmax> Output::argmax_for(int64_t rows) const {
  constexpr int64_t kRowsThatPay = 256;
  const std::shared_ptr<const ops::PackedWeight> packed = weight_.packed();
  if (packed == nullptr || !ops::LinearArgmax::pays(*packed)) return nullptr;
  if (ops::MatmulPrecisionScope::current() == ops::Precision::bf16) return nullptr;
  // Who is making it does not let others wait, nor a process that is forked meanwhile, where nobody will finish it.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return nullptr;
  if (argmax_ != nullptr && argmax_->weight() != packed) argmax_ = nullptr;  // the weight has changed
  rows_asked_ += rows;
  if (argmax_ == nullptr && rows_asked_ >= kRowsThatPay)
    argmax_ = std::make_shared<const ops::LinearArgmax>(packed, bias_.defined() ? bias_.data() : Tensor());
  return argmax_;
}

std::vector<int32_t> Decoder::step_greedy(const Tensor& tokens, std::span<const uint8_t> excluded) {
  return ops::argmax(step(tokens), excluded);
}

Tensor Decoder::step_some(std::span<const int64_t> /*rows*/, const Tensor& /*tokens*/) {
  fail("Decoder::step_some", "a decoder that steps some of its rows; found one that does not");
}

void Decoder::step_by_parts(std::span<const int64_t> rows, const Tensor& tokens, const UseLogits& use) {
  use(0, rows.empty() ? step(tokens) : step_some(rows, tokens));
}

void initialize_normal(const Model& model, uint64_t seed) {
  if (nn::Initializer::Skipped::active()) return;
  constexpr float kDeviation = 0.02f;
  nn::Initializer init(seed);
  for (const auto& [path, value] : model.named_parameters()) {
    if (value.data().rank() != 2) continue;
    const Tensor initial = init.normal(value.shape(), kDeviation);
    if (path.ends_with("embedding.tokens.weight") && model.config().padding_id >= 0) {
      initial.select(0, model.config().padding_id).zero();
    }
    value.set_data(initial);
  }
}

void shrink_residual_projections(const Model& model, int64_t layers) {
  if (nn::Initializer::Skipped::active()) return;
  const float factor = 1.0f / std::sqrt(2.0f * static_cast<float>(std::max<int64_t>(layers, 1)));
  for (const auto& [path, value] : model.named_parameters()) {
    if (!path.ends_with("attention.output.weight") && !path.ends_with("feed_forward.outer.weight")) continue;
    float* weight = value.data().data<float>();
    for (int64_t i = 0; i < value.data().numel(); ++i) weight[i] *= factor;
  }
}

void check_lengths(const Tensor& tokens, const Tensor& lengths) {
  require(tokens.defined() && tokens.rank() == 2 && lengths.defined() && lengths.rank() == 1 &&
              lengths.dtype() == DType::i32 && lengths.size(0) == tokens.size(0),
          "models", "tokens (B, L) and lengths (B) of i32; found ", tokens.shape(), " and ", lengths.shape(), " of ",
          lengths.dtype());
  for (int64_t b = 0; b < lengths.size(0); ++b) {
    const auto length = static_cast<int64_t>(lengths.at({b}));
    require(length >= 0 && length <= tokens.size(1), "models", "lengths of at most ", tokens.size(1), "; found ",
            length, " in row ", b);
  }
}

}  // namespace heed::models
