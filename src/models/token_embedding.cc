// TokenEmbedding: token vectors, plus positions, then dropout.
#include "models/token_embedding.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "nn/probing.h"

namespace heed::models {
namespace {

constexpr int64_t kTableLength = 1024;  // sinusoidal positions computed once; those behind are computed when needed

}  // namespace

TokenEmbedding::TokenEmbedding(const Config& config, int64_t vocabulary, const TokenEmbedding* shared,
                               nn::Initializer& init)
    : kind_(config.positions),
      layout_(config.position_layout),
      first_position_(config.first_position),
      max_length_(config.max_length),
      dropout_(config.dropout) {
  if (shared == nullptr) {
    own_tokens_ =
        std::make_unique<nn::Embedding>(vocabulary, config.width, config.padding_id, config.scale_embedding, init);
    add_module("tokens", *own_tokens_);
  }
  tokens_ = shared == nullptr ? own_tokens_.get() : shared->tokens_;
  if (kind_ == Positions::learned) {
    const float deviation = 1.0f / std::sqrt(static_cast<float>(config.width));
    learned_ = add_parameter("positions", init.normal({max_length_, config.width}, deviation));
  } else if (kind_ == Positions::sinusoidal) {
    sinusoidal_ = nn::sinusoidal_positions(std::min(max_length_, kTableLength), config.width, layout_, first_position_);
  }
  // BERT normalises here; in other post-norm models the first sublayer does.
  if (config.architecture == Architecture::encoder_only && config.norm_placement == NormPlacement::post) {
    norm_ = std::make_unique<nn::Norm>(config.norm, config.width, config.norm_epsilon, config.bias);
    add_module("norm", *norm_);
  }
}

Value TokenEmbedding::operator()(const Tensor& ids, int64_t first) const {
  require(ids.defined() && ids.rank() == 2 && ids.dtype() == DType::i32, "models", "token ids (B, L) of i32; found ",
          ids.shape(), " of ", ids.dtype());
  const SequencePartScope* const part = SequencePartScope::active();
  const int64_t length = ids.size(1), end = part != nullptr ? part->layout().length() : first + length;
  require(end <= max_length_, "models", "at most max_length = ", max_length_, " positions; found ", end);
  Value x = (*tokens_)(ids);
  if (kind_ == Positions::learned || kind_ == Positions::sinusoidal) x = x + (part != nullptr ? positions(part->runs()) : positions(first, length));
  if (norm_) x = (*norm_)(x);
  return nn::probed_state(path(), dropout(x, dropout_));
}

Value TokenEmbedding::positions(const std::vector<distributed::Run>& runs) const {
  std::vector<Value> all;
  for (const distributed::Run& run : runs) all.push_back(positions(run.first, run.count));
  return all.size() == 1 ? all.front() : concat(all, 0);
}

Value TokenEmbedding::positions(int64_t first, int64_t length) const {
  if (kind_ == Positions::learned) return slice(learned_, 0, first, first + length);
  if (first + length <= sinusoidal_.size(0)) return Value(sinusoidal_.slice(0, first, first + length));
  return Value(nn::sinusoidal_positions(length, sinusoidal_.size(1), layout_, first_position_ + first));
}

}  // namespace heed::models
