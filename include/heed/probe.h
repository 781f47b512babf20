// Probes see what a model computes, and may change it: states, heads, and who attends to whom. Models do not know who
// looks.
//
//   struct HeadOff : nn::Probe {
//     Tensor on_heads(std::string_view layer, const Tensor& heads) override {  // (B, H, L, Dv)
//       if (layer != "decoder.layers.2.cross_attention") return heads;
//       Tensor changed = heads.clone();
//       changed.select(1, 3).zero();
//       return changed;
//     }
//   } probe;
//   const nn::ProbeScope scope(probe);
//   const Value logits = model.forward(source, lengths, target);
//
// What a probe leaves alone keeps its bits. Probes work without gradients and without a cache: a forward pass under a
// ProbeScope that records gradients, or that decodes with a cache, throws Error.
#pragma once

#include <string_view>

#include "heed/attention_options.h"
#include "heed/export.h"
#include "heed/tensor.h"

HEED_EXPORT_BEGIN
namespace heed::nn {

class Probe {
 public:
  virtual ~Probe() = default;

  // Before the attention of the layer at this path, "decoder.layers.2.cross_attention": query (B, H, L, D), key
  // (B, Hkv, S, D), value (B, Hkv, S, Dv). The options may be changed: a mask says who does not see whom.
  virtual void on_attention(std::string_view layer, const Tensor& query, const Tensor& key, const Tensor& value,
                            AttentionOptions& options);
  // What its heads have found, (B, H, L, Dv), before the output projection joins them. What is returned takes their
  // place.
  [[nodiscard]] virtual Tensor on_heads(std::string_view layer, const Tensor& heads);
  // What a sublayer adds to the residual stream, (B, L, E): "decoder.layers.2.feed_forward".
  virtual void on_added(std::string_view sublayer, const Tensor& added);
  // The residual stream (B, L, E) after the sublayer: after its norm too, where the norm follows the sum. And after
  // "decoder.embedding". What is returned takes its place.
  [[nodiscard]] virtual Tensor on_state(std::string_view sublayer, const Tensor& state);
};

// While it is alive, this thread's forward passes tell `probe`. Scopes nest: the innermost one is told.
class ProbeScope {
 public:
  explicit ProbeScope(Probe& probe);
  ~ProbeScope();
  ProbeScope(const ProbeScope&) = delete;
  ProbeScope& operator=(const ProbeScope&) = delete;

 private:
  Probe* before_;
};

}  // namespace heed::nn
HEED_EXPORT_END
