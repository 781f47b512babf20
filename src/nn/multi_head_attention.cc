// MultiHeadAttention: several attentions side by side, each in a subspace of its own. Vaswani et al. 2017,
// section 3.2.2.
#include <cmath>
#include <numbers>

#include "autograd/tape.h"
#include "heed/error.h"
#include "heed/nn.h"
#include "nn/observer.h"
#include "nn/probing.h"

namespace heed::nn {
namespace {

MultiHeadAttentionOptions with_defaults(MultiHeadAttentionOptions o) {
  require(o.width > 0 && o.heads > 0, "MultiHeadAttention", "width and heads above 0; found ", o.width, " and ",
          o.heads);
  if (o.key_value_heads == 0) o.key_value_heads = o.heads;
  require(o.key_value_heads > 0 && o.heads % o.key_value_heads == 0, "MultiHeadAttention",
          "heads as a multiple of key_value_heads; found ", o.heads, " and ", o.key_value_heads);
  if (o.head_size == 0) {
    require(o.width % o.heads == 0, "MultiHeadAttention", "width as a multiple of heads, or a head_size; found ",
            o.width, " and ", o.heads);
    o.head_size = o.width / o.heads;
  }
  if (o.value_size == 0) o.value_size = o.head_size;
  if (o.memory_width == 0) o.memory_width = o.width;
  require(std::isfinite(o.scale) && o.scale >= 0, "MultiHeadAttention",
          "a scale above 0, or 0 for 1 / sqrt(head_size); found ", o.scale);
  return o;
}

// Query, key and value as one matrix (3E, E) under Glorot's rule have a bound sqrt(2) smaller than each alone:
// attention starts softer and post-norm stacks train with a higher learning rate. What PyTorch and fairseq do.
void soften(const Linear& projection) {
  if (Initializer::Skipped::active()) return;
  float* weight = projection.weight.data().data<float>();
  const int64_t count = projection.weight.data().numel();
  for (int64_t i = 0; i < count; ++i) weight[i] *= std::numbers::sqrt2_v<float> / 2;
}

Tensor checked_heads(const Tensor& heads, const Shape& expected) {
  require(heads.shape() == expected && heads.dtype() == DType::f32, "Probe::on_heads", "heads ", expected,
          " of f32; found ", heads.shape(), " of ", heads.dtype());
  return heads;
}

}  // namespace

Tensor alibi_slopes(int64_t heads) {
  require(heads > 0, "alibi_slopes", "heads above 0; found ", heads);
  int64_t power = 1;  // the largest power of two that is not above the heads
  while (2 * power <= heads) power *= 2;
  const Tensor slopes = Tensor::empty({heads});
  for (int64_t h = 0; h < heads; ++h) {
    const double exponent = h < power ? 8.0 * static_cast<double>(h + 1) / static_cast<double>(power)
                                      : 8.0 * static_cast<double>(2 * (h - power) + 1) / static_cast<double>(2 * power);
    slopes.data<float>()[h] = static_cast<float>(std::exp2(-exponent));
  }
  return slopes;
}

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionOptions& options, Initializer& init)
    : options_(with_defaults(options)),
      slopes_(options_.alibi ? alibi_slopes(options_.heads) : Tensor()),
      query_(options_.width, options_.heads * options_.head_size, options_.bias, init),
      key_(options_.memory_width, options_.key_value_heads * options_.head_size, options_.bias, init),
      value_(options_.memory_width, options_.key_value_heads * options_.value_size, options_.bias, init),
      output_(options_.heads * options_.value_size, options_.width, options_.bias, init) {
  soften(query_);
  soften(key_);
  soften(value_);
  add_module("query", query_);
  add_module("key", key_);
  add_module("value", value_);
  add_module("output", output_);
}

Value MultiHeadAttention::self(const Value& x, const AttentionOptions& masks, const Places& places) const {
  const auto& o = options_;
  require(!masks.alibi_slopes.defined() && masks.window.left < 0 && masks.window.right < 0, "MultiHeadAttention",
          "masks without a window and slopes, which are options of the layer; found some");
  AttentionOptions options = masks;
  options.alibi_slopes = slopes_;
  options.window = {.left = o.window, .right = o.window};
  const Value q = turned(heads(query_(x), o.heads, o.head_size), 0, places.positions);  // (B, H, L, D)
  const Value k = turned(heads(key_(x), o.key_value_heads, o.head_size), 0, places.positions);
  const Value v = heads(value_(x), o.key_value_heads, o.value_size);
  return attend(q, k, v, std::move(options), places);
}

// Heads (B, H, L, D) at the positions `first` and after, or `positions` (1, L), turned by the angles of those.
Value MultiHeadAttention::turned(const Value& heads, int64_t first, const Tensor& positions) const {
  const ops::RotaryTables& angles = options_.rotary;
  if (!angles.cos.defined()) return heads;
  if (positions.defined()) {
    return rotary_embedding(heads, ops::embedding(positions, angles.cos, {}),
                            ops::embedding(positions, angles.sin, {}));
  }
  const int64_t end = first + heads.size(2);
  require(end <= angles.cos.size(0), "MultiHeadAttention", "at most ", angles.cos.size(0), " positions; found ", end);
  return rotary_embedding(heads, angles.cos.slice(0, first, end), angles.sin.slice(0, first, end));
}

Value MultiHeadAttention::cross(const Value& x, const Value& memory, const AttentionOptions& masks) const {
  const auto& o = options_;
  const Value q = heads(query_(x), o.heads, o.head_size);                  // (B, H, L, D)
  const Value k = heads(key_(memory), o.key_value_heads, o.head_size);     // (B, Hkv, S, D)
  const Value v = heads(value_(memory), o.key_value_heads, o.value_size);  // (B, Hkv, S, Dv)
  return attend(q, k, v, masks, {});
}

KeyValueCache MultiHeadAttention::start(int64_t batch, const KeyValueCache::Options& options) const {
  KeyValueCache::Options of_heads = options;
  of_heads.heads_together = options.heads_together && !options_.alibi;
  return {batch, options_.key_value_heads, 0, options_.head_size, options_.value_size, of_heads};
}

Value MultiHeadAttention::self(const Value& x, KeyValueCache& cache, const Value& distance_bias,
                               std::span<const int64_t> sequences) const {
  const auto& o = options_;
  const NoGradScope no_grad;
  const bool turns = o.rotary.cos.defined(), all = sequences.empty();
  const int64_t first = turns ? cache.length(all ? 0 : sequences[0]) : 0;
  for (int64_t i = 0; turns && i < (all ? cache.batch() : std::ssize(sequences)); ++i) {
    const int64_t length = cache.length(all ? i : sequences[static_cast<size_t>(i)]);
    require(length == first, "MultiHeadAttention",
            "sequences of one length in the cache, where rotary positions go on; found lengths ", first, " and ",
            length);
  }
  const Tensor key = turned(heads(key_(x), o.key_value_heads, o.head_size), first, {}).data();
  const Tensor value = heads(value_(x), o.key_value_heads, o.value_size).data();
  all ? cache.append(key, value) : cache.append_to(sequences, key, value);
  AttentionOptions options{
      .causal = Causal::bottom_right(), .window = {.left = o.window, .right = o.window}, .alibi_slopes = slopes_};
  if (distance_bias.defined()) options.score = tape::distance_score(distance_bias.data());
  return attend(turned(heads(query_(x), o.heads, o.head_size), first, {}),
                all ? cache.memory() : cache.memory_of(sequences), options);
}

KeyValueCache MultiHeadAttention::remember(const Value& memory, const Tensor& lengths,
                                           const KeyValueCache::Options& options) const {
  const auto& o = options_;
  const NoGradScope no_grad;
  KeyValueCache cache = start(memory.size(0), options);
  cache.append(heads(key_(memory), o.key_value_heads, o.head_size).data(),
               heads(value_(memory), o.key_value_heads, o.value_size).data(), lengths);
  return cache;
}

Value MultiHeadAttention::cross(const Value& x, const KeyValueCache& memory, std::span<const int64_t> sequences) const {
  const NoGradScope no_grad;
  return attend(heads(query_(x), options_.heads, options_.head_size),
                sequences.empty() ? memory.memory() : memory.memory_of(sequences), {});
}

Value MultiHeadAttention::attend(const Value& q, const Value& k, const Value& v, AttentionOptions options,
                                 const Places& places) const {
  if (options_.scale > 0) options.scale = options_.scale;
  if (options_.attention_dropout > 0) {
    // A layer takes two keys of the scope and uses the second one, as the first version of heed did by mistake: a
    // training that is repeated keeps its bits.
    if (TrainingScope::active()) (void)TrainingScope::next_dropout_seed();
    options.dropout.rate = options_.attention_dropout;
  }
  const ops::Dropout drawn = tape::next_dropout(options.dropout.rate, tape::DropoutOf::attention);
  options.dropout = {.rate = drawn.rate, .seed = drawn.seed};
  if (places.starts.defined()) {
    require_no_probe("MultiHeadAttention");
    require(active_observer() == nullptr, "MultiHeadAttention",
            "a padded batch where attention is observed; found sequences without padding");
    return output_(merge_heads(tape::attention_of_sequences(q, k, v, places.distance_bias, places.starts, options)));
  }
  if (places.distance_bias.defined()) options.score = tape::distance_score(places.distance_bias.data());
  Probe* const probe = active_probe();
  if (probe != nullptr) probe->on_attention(path(), q.data(), k.data(), v.data(), options);
  Value mixed = tape::attention_by_distance(q, k, v, places.distance_bias, options);  // (B, H, L, Dv)
  if (probe != nullptr) mixed = Value(checked_heads(probe->on_heads(path(), mixed.data()), mixed.shape()));
  if (AttentionObserver* observer = active_observer()) {
    // A second pass, so that being watched does not change how the output is computed.
    options.want = {.weights = true};
    observer->on_attention(path(), heed::attention(q.data(), k.data(), v.data(), options).weights);
  }
  return output_(merge_heads(mixed));
}

Value MultiHeadAttention::attend(const Value& q, const KeyValues& memory, AttentionOptions options) const {
  require_no_probe("MultiHeadAttention");
  if (options_.scale > 0) options.scale = options_.scale;
  const Value mixed(heed::attention(q.data(), memory, options).output);
  if (AttentionObserver* observer = active_observer()) {
    AttentionOptions watched = options;
    watched.want.weights = true;
    observer->on_attention(path(), heed::attention(q.data(), memory, watched).weights);
  }
  return output_(merge_heads(mixed));
}

}  // namespace heed::nn
