// What a model costs: the sizes of its matrices, added up.
#include <algorithm>

#include "heed/error.h"
#include "models/add_norm.h"
#include "models/token_embedding.h"

namespace heed::models {
namespace {

// Sizes with the defaults filled in.
struct Sizes {
  explicit Sizes(const Config& c)
      : width(c.width),
        inner(c.feed_forward),
        heads(c.heads),
        head_size(c.head_size > 0 ? c.head_size : c.width / c.heads),
        value_size(c.value_size > 0 ? c.value_size : head_size),
        key_value_heads(c.key_value_heads > 0 ? c.key_value_heads : c.heads),
        gated(c.gated) {}

  int64_t width, inner, heads, head_size, value_size, key_value_heads;
  bool gated;

  [[nodiscard]] int64_t query_width() const { return heads * head_size; }
  [[nodiscard]] int64_t key_width() const { return key_value_heads * head_size; }
  [[nodiscard]] int64_t value_width() const { return key_value_heads * value_size; }
  [[nodiscard]] int64_t mixed_width() const { return heads * value_size; }
  [[nodiscard]] int64_t attention_weights() const {  // of the four projections
    return width * (query_width() + key_width() + value_width() + mixed_width());
  }
};

int64_t norm_parameters(const Config& c) { return c.width * (c.bias && c.norm == nn::NormKind::layer_norm ? 2 : 1); }

int64_t attention_parameters(const Config& c) {
  const Sizes s(c);
  const int64_t biases = c.bias ? s.query_width() + s.key_width() + s.value_width() + s.width : 0;
  return s.attention_weights() + biases;
}

int64_t feed_forward_parameters(const Config& c) {
  const int64_t inner = c.gated ? 2 : 1;
  return (inner + 1) * c.width * c.feed_forward + (c.bias ? inner * c.feed_forward + c.width : 0);
}

int64_t stack_parameters(const Config& c, int64_t layers, int64_t attentions_each) {
  const int64_t layer = attentions_each * (attention_parameters(c) + norm_parameters(c)) + feed_forward_parameters(c) +
                        norm_parameters(c);
  return layers * layer - (c.first_norm || layers == 0 ? 0 : norm_parameters(c)) +
         (c.final_norm ? norm_parameters(c) : 0) + (has_embedding_norm(c) ? norm_parameters(c) : 0) +
         c.token_types * c.width + c.relative_buckets * c.heads +
         (c.positions == Positions::learned ? (c.first_position + c.max_length) * c.width : 0);
}

int64_t output_parameters(const Config& c, int64_t vocabulary) {
  return (c.tie_output ? 0 : vocabulary * c.width) + (c.output_bias ? vocabulary : 0);
}

int64_t head_parameters(const Config& c) {
  const bool guesses_tokens = c.head == Head::masked_token;
  const int64_t hidden = guesses_tokens || c.head_hidden ? c.width * c.width + (c.bias ? c.width : 0) : 0;
  const int64_t norm = guesses_tokens || c.head_norm ? norm_parameters(c) : 0;
  return hidden + norm +
         (guesses_tokens ? output_parameters(c, c.source_vocabulary)
                         : static_cast<int64_t>(c.labels.size()) * (c.width + 1));
}

int64_t parameters(const Config& c) {
  switch (c.architecture) {
    case Architecture::encoder_decoder:
      return c.source_vocabulary * c.width + (c.share_embeddings ? 0 : c.target_vocabulary * c.width) +
             stack_parameters(c, c.encoder_layers, 1) + stack_parameters(c, c.decoder_layers, 2) +
             output_parameters(c, c.target_vocabulary);
    case Architecture::decoder_only:
      return c.target_vocabulary * c.width + stack_parameters(c, c.decoder_layers, 1) +
             output_parameters(c, c.target_vocabulary);
    case Architecture::encoder_only:
      return c.source_vocabulary * c.width + stack_parameters(c, c.encoder_layers, 1) + head_parameters(c);
  }
  return 0;
}

// Multiply-adds of one attention over `queries` rows and `keys` columns: scores and mixing are counted in full, also
// behind a causal mask.
int64_t attention_products(const Sizes& s, int64_t queries, int64_t keys) {
  const int64_t projections =
      s.width * (queries * (s.query_width() + s.mixed_width()) + keys * (s.key_width() + s.value_width()));
  return projections + s.heads * queries * keys * (s.head_size + s.value_size);
}

int64_t feed_forward_products(const Sizes& s, int64_t rows) { return (s.gated ? 3 : 2) * rows * s.width * s.inner; }

// Numbers a sublayer keeps for its backward pass, for each row: inputs of products, sums and normalised states.
int64_t attention_kept(const Sizes& s) {
  return s.query_width() + s.key_width() + s.value_width() + s.mixed_width() + s.heads + 3 * s.width;
}
int64_t feed_forward_kept(const Sizes& s) { return (s.gated ? 5 : 2) * s.inner + 3 * s.width; }

// Throws Error for a batch whose multiply-adds may be too many for 64 bits; `length` is the longer one of both sides.
void require_countable(const Config& c, const Sizes& s, int64_t batch, int64_t length) {
  constexpr double kMost = 1e18;  // six times as many operations, those of training, are below 2^63
  const auto number = [](int64_t x) { return static_cast<double>(x); };
  const double layer = number(2 * s.attention_weights() + 3 * s.width * s.inner) +
                       2 * number(length) * number(s.heads * (s.head_size + s.value_size));
  const double token = number(c.encoder_layers + c.decoder_layers) * layer +
                       number(s.width) * number(s.width + std::max(c.source_vocabulary, c.target_vocabulary));
  require(number(batch) * number(length) * token < kMost, "cost",
          "a batch and lengths that need fewer than 1e18 multiply-adds; found a batch of ", batch, " and a length of ",
          length);
}

}  // namespace

int64_t multi_head_attention_flops(int64_t batch, int64_t width, int64_t length) {
  return 4 * batch * width * length * (2 * width + length);
}

Cost cost(const Config& config, int64_t batch, int64_t source_length, int64_t target_length) {
  config.validate();
  const Sizes s(config);
  require_countable(config, s, batch, std::max(source_length, target_length));
  const int64_t encoder_layers = config.architecture == Architecture::decoder_only ? 0 : config.encoder_layers;
  const int64_t decoder_layers = config.architecture == Architecture::encoder_only ? 0 : config.decoder_layers;
  const bool crosses = config.architecture == Architecture::encoder_decoder;
  const int64_t source = config.architecture == Architecture::decoder_only ? 0 : source_length;
  const int64_t target = config.architecture == Architecture::encoder_only ? 0 : target_length;

  int64_t products = encoder_layers * (attention_products(s, source, source) + feed_forward_products(s, source)) +
                     decoder_layers * (attention_products(s, target, target) + feed_forward_products(s, target) +
                                       (crosses ? attention_products(s, target, source) : 0));
  int64_t kept = encoder_layers * source * (attention_kept(s) + feed_forward_kept(s)) +
                 decoder_layers * target * ((crosses ? 2 : 1) * attention_kept(s) + feed_forward_kept(s));
  if (config.architecture == Architecture::encoder_only) {
    // A text's class is guessed from one state.
    const int64_t guessed =
        config.head == Head::masked_token ? config.source_vocabulary : static_cast<int64_t>(config.labels.size());
    const int64_t rows = config.head == Head::text_class ? 1 : config.head == Head::none ? 0 : source;
    products += rows * s.width * (s.width + guessed);
    kept += rows * (3 * s.width + guessed);
  } else {
    products += target * s.width * config.target_vocabulary;
    kept += target * config.target_vocabulary;
  }
  Cost result;
  result.parameters = parameters(config);
  result.parameter_bytes = result.parameters * size_of(DType::f32);
  result.forward_flops = 2 * batch * products;
  result.training_flops = 3 * result.forward_flops;  // each product has two in the backward pass
  result.activation_bytes = batch * kept * size_of(DType::f32);
  return result;
}

}  // namespace heed::models
