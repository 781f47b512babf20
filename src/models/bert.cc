// Bert: encoder-only, trained to guess masked tokens. Devlin et al. 2019.
#include <algorithm>

#include "heed/error.h"
#include "models/encoder.h"
#include "models/output.h"
#include "models/stack.h"

namespace heed::models {
// Guesses the token from a state: one more layer, then the (tied) output.
class MaskedTokenHead : public nn::Module {
 public:
  MaskedTokenHead(const Config& config, const Value& embedding, nn::Initializer& init)
      : dense_(config.width, config.width, config.bias, init),
        norm_(config.norm, config.width, config.norm_epsilon, config.bias),
        output_(config, embedding, init),
        activation_(config.activation) {
    add_module("dense", dense_);
    add_module("norm", norm_);
    add_module("output", output_);
  }

  [[nodiscard]] Value operator()(const Value& x) const { return output_(states(x)); }
  [[nodiscard]] Value loss(const Value& x, const Tensor& targets, const CrossEntropyOptions& options) const {
    return output_.loss(states(x), targets, options);
  }

 private:
  [[nodiscard]] Value states(const Value& x) const { return norm_(dense_(x, activation_)); }

  nn::Linear dense_;
  nn::Norm norm_;
  Output output_;
  Activation activation_;
};

namespace {

// x (B, L, E), lengths (B) i32 -> (B, E): the mean of the first lengths[b] states, 0 where there are none. One sum in
// the order of the positions, so that padding behind a sentence does not change a bit of its mean.
Value mean_of_states(const Value& x, const Tensor& lengths) {
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  const auto share = [lengths](int64_t b) {
    const auto count = static_cast<float>(lengths.at({b}));
    return count > 0 ? 1.0f / count : 0.0f;
  };
  const Tensor states = x.data().contiguous();
  const Tensor mean = Tensor::zeros({batch, width});
  for (int64_t b = 0; b < batch; ++b) {
    float* out = mean.data<float>() + b * width;
    const float* in = states.data<float>() + b * length * width;
    const auto count = static_cast<int64_t>(lengths.at({b}));
    for (int64_t l = 0; l < count; ++l) {
      for (int64_t e = 0; e < width; ++e) out[e] += in[l * width + e];
    }
    for (int64_t e = 0; e < width; ++e) out[e] *= share(b);
  }
  return Value::record(mean, {x}, [=](const Tensor& d_mean) {
    const Tensor d_states = Tensor::zeros({batch, length, width});
    const Tensor d_rows = d_mean.contiguous();
    for (int64_t b = 0; b < batch; ++b) {
      const float* in = d_rows.data<float>() + b * width;
      float* out = d_states.data<float>() + b * length * width;
      const auto count = static_cast<int64_t>(lengths.at({b}));
      for (int64_t l = 0; l < count; ++l) {
        for (int64_t e = 0; e < width; ++e) out[l * width + e] = in[e] * share(b);
      }
    }
    return std::vector<Tensor>{d_states};
  });
}

}  // namespace

struct Bert::Parts {
  Parts(const Config& config, nn::Initializer init)
      : encoder(config, config.source_vocabulary, config.encoder_layers, nullptr, init),
        head(config, encoder.embedding().weight(), init) {}

  Stack<EncoderLayer> encoder;
  MaskedTokenHead head;
};

Bert::Bert(const Config& config, uint64_t seed) : Model(config) {
  require(config.architecture == Architecture::encoder_only, "Bert", "architecture encoder_only; found ",
          config.architecture);
  parts_ = std::make_unique<Parts>(config, nn::Initializer(seed));
  add_module("encoder", parts_->encoder);
  add_module("head", parts_->head);
  name_paths();
  initialize_normal(*this, seed);
}

Bert::~Bert() = default;

Value Bert::encode(const Tensor& tokens, const Tensor& lengths) const {
  check_lengths(tokens, lengths);
  const AttentionOptions masks = {.key_lengths = lengths};
  return parts_->encoder(tokens, 0,
                         [&](const EncoderLayer& layer, const Value& x, size_t) { return layer.forward(x, masks); });
}

Value Bert::forward(const Tensor& tokens, const Tensor& lengths) const { return parts_->head(encode(tokens, lengths)); }

Value Bert::logits_of(const Value& states) const { return parts_->head(parts_->encoder.finish(states)); }

Value Bert::loss(const Tensor& tokens, const Tensor& lengths, const Tensor& expected,
                 const CrossEntropyOptions& options) const {
  return parts_->head.loss(encode(tokens, lengths), expected, options);
}

Value Bert::embed(const Tensor& tokens, const Tensor& lengths) const {
  return mean_of_states(encode(tokens, lengths), lengths);
}

}  // namespace heed::models
