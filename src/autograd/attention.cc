// Attention with its gradient.
#include "heed/attention_variants.h"

#include "autograd/tape.h"
#include "heed/error.h"

namespace heed {

using tape::Gradients;
using tape::make;
using tape::recording;

namespace {

// Dropout draws from the scope.
AttentionOptions drawn_options(const AttentionOptions& options) {
  const AttentionOptions::Want& want = options.want;
  require(!want.logsumexp && !want.weights && !want.scores && !want.taps.any() && !want.output.defined(), "attention",
          "on Values, options that want nothing beside the output; found want.logsumexp, weights, scores, taps or "
          "output");
  AttentionOptions drawn = options;
  const ops::Dropout dropout = tape::next_dropout(options.dropout.rate, tape::DropoutOf::attention);
  drawn.dropout = {.rate = dropout.rate, .seed = dropout.seed};
  return drawn;
}

void give(AttentionGradients& gradients, Gradients& into) {
  into.give(0, std::move(gradients.query));
  into.give(1, std::move(gradients.key));
  into.give(2, std::move(gradients.value));
}

// Of a part of a sequence, with the keys and values of all parts.
Value attention_across_ranks(const SequencePartScope& scope, const Value& query, const Value& key, const Value& value,
                             AttentionOptions options) {
  const bool recorded = recording({&query, &key, &value});
  options.want = {.logsumexp = recorded};
  distributed::Communicator& ranks = scope.ranks();
  const distributed::AttentionLayouts layouts{scope.layout(), scope.layout()};
  AttentionResult forward = distributed::attention(ranks, query.data(), key.data(), value.data(), options, layouts);
  if (!recorded) return Value(std::move(forward.output));
  const Tensor output = forward.output;
  return make(output, {&query, &key, &value},
              [&ranks, layouts, q = query.data(), k = key.data(), v = value.data(), forward = std::move(forward),
               options = std::move(options)](const Tensor& d, Gradients& into) {
                AttentionGradients gradients =
                    distributed::attention_backward(ranks, d, q, k, v, forward, options, layouts);
                give(gradients, into);
              });
}

}  // namespace

Value attention(const Value& query, const Value& key, const Value& value, const AttentionOptions& options) {
  return tape::attention_with_dropout(query, key, value, drawn_options(options));
}

Value tape::attention_with_dropout(const Value& query, const Value& key, const Value& value, AttentionOptions options) {
  if (const SequencePartScope* const scope = SequencePartScope::active()) {
    return attention_across_ranks(*scope, query, key, value, std::move(options));
  }
  const bool recorded = recording({&query, &key, &value});
  options.want = {.logsumexp = recorded};
  AttentionResult forward = attention(query.data(), key.data(), value.data(), options);
  if (!recorded) return Value(std::move(forward.output));
  const Tensor output = forward.output;
  return make(output, {&query, &key, &value},
              [q = query.data(), k = key.data(), v = value.data(), forward = std::move(forward),
               options = std::move(options)](const Tensor& d, Gradients& into) {
                AttentionGradients gradients = attention_backward(d, q, k, v, forward, options);
                give(gradients, into);
              });
}

Score tape::distance_score(const Tensor& distance_bias) {
  require(distance_bias.rank() == 2 && distance_bias.size(1) % 2 == 1, "attention",
          "a bias by distance (H, 2 R + 1); found ", distance_bias.shape());
  require(SequencePartScope::active() == nullptr, "attention", "no bias by distance in parts of a sequence; found one");
  return score::RelativePosition{distance_bias.contiguous(), static_cast<int32_t>(distance_bias.size(1) / 2)};
}

namespace {

// (1, H, T, D) as attention_varlen() takes it, (T, H, D), and back.
Tensor rows_first(const Tensor& heads) { return heads.select(0, 0).transpose(0, 1); }
Tensor heads_first(const Tensor& rows) {
  const Tensor heads = rows.transpose(0, 1);
  return heads.expand({1, heads.size(0), heads.size(1), heads.size(2)});
}

}  // namespace

Value tape::attention_by_distance(const Value& query, const Value& key, const Value& value, const Value& distance_bias,
                                  AttentionOptions options) {
  if (!distance_bias.defined()) return attention_with_dropout(query, key, value, std::move(options));
  options.score = distance_score(distance_bias.data());
  options.want = {.logsumexp = recording({&query, &key, &value, &distance_bias})};
  AttentionResult forward = attention(query.data(), key.data(), value.data(), options);
  const Tensor output = forward.output;
  return make(output, {&query, &key, &value, &distance_bias},
              [q = query.data(), k = key.data(), v = value.data(), forward = std::move(forward),
               options = std::move(options)](const Tensor& d, Gradients& into) {
                AttentionGradients gradients =
                    attention_backward(d, q, k, v, forward, options, {.score_table = into.wanted(3)});
                give(gradients, into);
                if (into.wanted(3)) into.give(3, std::move(gradients.score_table));
              });
}

Value tape::attention_of_sequences(const Value& query, const Value& key, const Value& value, const Value& distance_bias,
                                   const Tensor& starts, AttentionOptions options) {
  if (distance_bias.defined()) options.score = distance_score(distance_bias.data());
  options.want = {.logsumexp = recording({&query, &key, &value, &distance_bias})};
  const CuSeqlens sequences{starts, starts};
  const Tensor q = rows_first(query.data()), k = rows_first(key.data()), v = rows_first(value.data());
  AttentionResult forward = attention_varlen(q, k, v, sequences, options);
  const Tensor output = heads_first(forward.output);
  return make(output, {&query, &key, &value, &distance_bias},
              [q, k, v, sequences, forward = std::move(forward), options = std::move(options)](const Tensor& d,
                                                                                               Gradients& into) {
                AttentionGradients gradients = attention_varlen_backward(rows_first(d), q, k, v, sequences, forward,
                                                                         options, {.score_table = into.wanted(3)});
                into.give(0, heads_first(gradients.query));
                into.give(1, heads_first(gradients.key));
                into.give(2, heads_first(gradients.value));
                if (into.wanted(3)) into.give(3, std::move(gradients.score_table));
              });
}

Value attention_additive(const Value& query, const Value& key, const Value& value, const Value& weight,
                         const AttentionOptions& options) {
  const bool recorded = recording({&query, &key, &value, &weight});
  AttentionOptions drawn = drawn_options(options);
  drawn.want.logsumexp = recorded;
  AttentionResult forward = attention_additive(query.data(), key.data(), value.data(), weight.data(), drawn);
  if (!recorded) return Value(std::move(forward.output));
  const Tensor output = forward.output;
  return make(output, {&query, &key, &value, &weight},
              [q = query.data(), k = key.data(), v = value.data(), w = weight.data(), forward = std::move(forward),
               drawn = std::move(drawn)](const Tensor& d, Gradients& into) {
                AttentionGradients gradients = attention_additive_backward(d, q, k, v, w, forward, drawn);
                give(gradients, into);
                into.give(3, std::move(gradients.additive_weight));
              });
}

}  // namespace heed
