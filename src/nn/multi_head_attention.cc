// MultiHeadAttention: several attentions side by side, each in a subspace of its own. Vaswani et al. 2017,
// section 3.2.2.
#include <numbers>

#include "autograd/tape.h"
#include "heed/error.h"
#include "heed/nn.h"
#include "nn/observer.h"

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
  return o;
}

// Query, key and value as one matrix (3E, E) under Glorot's rule have a bound sqrt(2) smaller than each alone:
// attention starts softer and post-norm stacks train with a higher learning rate. What PyTorch and fairseq do.
void soften(const Linear& projection) {
  float* weight = projection.weight.data().data<float>();
  const int64_t count = projection.weight.data().numel();
  for (int64_t i = 0; i < count; ++i) weight[i] *= std::numbers::sqrt2_v<float> / 2;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionOptions& options, Initializer& init)
    : options_(with_defaults(options)),
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

Value MultiHeadAttention::self(const Value& x, const AttentionOptions& masks) const { return cross(x, x, masks); }

Value MultiHeadAttention::cross(const Value& x, const Value& memory, const AttentionOptions& masks) const {
  const auto& o = options_;
  const Value q = heads(query_(x), o.heads, o.head_size);                  // (B, H, L, D)
  const Value k = heads(key_(memory), o.key_value_heads, o.head_size);     // (B, Hkv, S, D)
  const Value v = heads(value_(memory), o.key_value_heads, o.value_size);  // (B, Hkv, S, Dv)
  return attend(q, k, v, masks);
}

KeyValueCache MultiHeadAttention::start(int64_t batch, const KeyValueCache::Options& options) const {
  return {batch, options_.key_value_heads, 0, options_.head_size, options_.value_size, options};
}

Value MultiHeadAttention::self(const Value& x, KeyValueCache& cache) const {
  const auto& o = options_;
  const NoGradScope no_grad;
  cache.append(heads(key_(x), o.key_value_heads, o.head_size).data(),
               heads(value_(x), o.key_value_heads, o.value_size).data());
  return attend(heads(query_(x), o.heads, o.head_size), cache, {.causal = Causal::bottom_right()});
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

Value MultiHeadAttention::cross(const Value& x, const KeyValueCache& memory) const {
  const NoGradScope no_grad;
  return attend(heads(query_(x), options_.heads, options_.head_size), memory, {});
}

Value MultiHeadAttention::attend(const Value& q, const Value& k, const Value& v, AttentionOptions options) const {
  if (options_.attention_dropout > 0) {
    // A layer takes two keys of the scope and uses the second one, as the first version of heed did by mistake: a
    // training that is repeated keeps its bits.
    if (TrainingScope::active()) (void)TrainingScope::next_dropout_seed();
    options.dropout.rate = options_.attention_dropout;
  }
  const ops::Dropout drawn = tape::next_dropout(options.dropout.rate, tape::DropoutOf::attention);
  options.dropout = {.rate = drawn.rate, .seed = drawn.seed};
  const Value mixed = tape::attention_with_dropout(q, k, v, options);  // (B, H, L, Dv)
  if (AttentionObserver* observer = active_observer()) {
    // A second pass, so that being watched does not change how the output is computed.
    options.want = {.weights = true};
    observer->on_attention(path(), heed::attention(q.data(), k.data(), v.data(), options).weights);
  }
  return output_(merge_heads(mixed));
}

Value MultiHeadAttention::attend(const Value& q, const KeyValueCache& cache, const AttentionOptions& options) const {
  const Value mixed(heed::attention(q.data(), cache, options).output);
  if (AttentionObserver* observer = active_observer()) {
    AttentionOptions watched = options;
    watched.want.weights = true;
    observer->on_attention(path(), heed::attention(q.data(), cache, watched).weights);
  }
  return output_(merge_heads(mixed));
}

}  // namespace heed::nn
