// TokenEmbedding: token vectors, plus those of their types and positions, then dropout.
#include "models/token_embedding.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "nn/probing.h"

namespace heed::models {
namespace {

constexpr int64_t kTableLength = 1024;  // sinusoidal positions computed once; those behind are computed when needed

}  // namespace

bool has_embedding_norm(const Config& config) {
  return config.embedding_norm ||
         (config.architecture == Architecture::encoder_only && config.norm_placement == NormPlacement::post);
}

TokenEmbedding::TokenEmbedding(const Config& config, int64_t vocabulary, const TokenEmbedding* shared,
                               nn::Initializer& init)
    : kind_(config.positions),
      layout_(config.position_layout),
      first_position_(config.first_position),
      max_length_(config.max_length),
      dropout_(config.dropout) {
  if (shared == nullptr) {
    own_tokens_ = std::make_unique<nn::Embedding>(
        vocabulary, config.width, config.zero_padding ? config.padding_id : -1, config.scale_embedding, init);
    add_module("tokens", *own_tokens_);
  }
  tokens_ = shared == nullptr ? own_tokens_.get() : shared->tokens_;
  const float deviation = 1.0f / std::sqrt(static_cast<float>(config.width));
  if (config.token_types > 0)
    types_ = add_parameter("types", init.normal({config.token_types, config.width}, deviation));
  if (kind_ == Positions::learned) {
    learned_ = add_parameter("positions", init.normal({first_position_ + max_length_, config.width}, deviation));
  } else if (kind_ == Positions::sinusoidal) {
    sinusoidal_ = nn::sinusoidal_positions(std::min(max_length_, kTableLength), config.width, layout_, first_position_);
  }
  // BERT normalises here; in other post-norm models the first sublayer does.
  if (has_embedding_norm(config)) {
    norm_ = std::make_unique<nn::Norm>(config.norm, config.width, config.norm_epsilon, config.bias);
    add_module("norm", *norm_);
  }
}

Value TokenEmbedding::operator()(const Tokens& tokens) const {
  const Tensor& ids = tokens.ids;
  require(ids.defined() && ids.rank() == 2 && ids.dtype() == DType::i32, "models", "token ids (B, L) of i32; found ",
          ids.shape(), " of ", ids.dtype());
  const SequencePartScope* const part = SequencePartScope::active();
  if (!tokens.positions.defined()) {
    const int64_t end = part != nullptr ? part->layout().length() : tokens.first + ids.size(1);
    require(end <= max_length_, "models", "at most max_length = ", max_length_, " positions; found ", end);
  }
  Value x = with_types((*tokens_)(ids), tokens.types);
  if (kind_ == Positions::learned || kind_ == Positions::sinusoidal) {
    x = x + (part != nullptr ? positions(part->runs()) : positions(tokens));
  }
  if (norm_) x = (*norm_)(x);
  return nn::probed_state(path(), dropout(x, dropout_));
}

Value TokenEmbedding::with_types(const Value& x, const Tensor& types) const {
  if (types.defined()) {
    require(types_.defined(), "models", "no token types for this model, which has no table of them; found some");
    return x + embedding(types, types_);
  }
  return types_.defined() ? x + reshape(slice(types_, 0, 0, 1), {types_.size(1)}) : x;
}

Value TokenEmbedding::positions(const Tokens& tokens) const {
  if (!tokens.positions.defined()) return positions(tokens.first, tokens.ids.size(1));
  // As far as the longest sequence reaches, then a row for each token.
  const Tensor& at = tokens.positions;
  const int32_t* const position = at.data<int32_t>();
  const int64_t count = at.numel();
  const int64_t longest = count == 0 ? 0 : *std::max_element(position, position + count) + int64_t{1};
  require(longest <= max_length_, "models", "at most max_length = ", max_length_, " positions; found ", longest);
  return reshape(embedding(at, positions(0, longest)), {count, tokens_->weight.size(1)});
}

Value TokenEmbedding::positions(const std::vector<distributed::Run>& runs) const {
  std::vector<Value> all;
  for (const distributed::Run& run : runs) all.push_back(positions(run.first, run.count));
  return all.size() == 1 ? all.front() : concat(all, 0);
}

Value TokenEmbedding::positions(int64_t first, int64_t length) const {
  if (kind_ == Positions::learned) return slice(learned_, 0, first_position_ + first, first_position_ + first + length);
  if (first + length <= sinusoidal_.size(0)) return Value(sinusoidal_.slice(0, first, first + length));
  return Value(nn::sinusoidal_positions(length, sinusoidal_.size(1), layout_, first_position_ + first));
}

}  // namespace heed::models
