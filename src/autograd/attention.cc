// Attention with its gradient.
#include "heed/attention.h"

#include "autograd/tape.h"

namespace heed {

using tape::Gradients;
using tape::Node;

Value attention(const Value& query, const Value& key, const Value& value, const AttentionOptions& options) {
  const bool recording = Node::recording({&query, &key, &value});
  AttentionOptions drawn = options;
  const ops::Dropout dropout = tape::next_dropout(options.dropout.rate);
  drawn.dropout = {.rate = dropout.rate, .seed = dropout.seed};
  drawn.want = {.logsumexp = recording};
  AttentionResult forward = attention(query.data(), key.data(), value.data(), drawn);
  if (!recording) return Node::constant(std::move(forward.output));
  const Tensor output = forward.output;
  return Node::make(output, {&query, &key, &value},
                    [q = query.data(), k = key.data(), v = value.data(), forward = std::move(forward),
                     drawn = std::move(drawn)](const Tensor& d, Gradients& into) {
                      AttentionGradients gradients = attention_backward(d, q, k, v, forward, drawn);
                      into.give(0, std::move(gradients.query));
                      into.give(1, std::move(gradients.key));
                      into.give(2, std::move(gradients.value));
                    });
}

}  // namespace heed
