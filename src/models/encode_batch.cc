#include "models/encode_batch.h"

#include "heed/error.h"
#include "models/output.h"
#include "models/packing.h"
#include "nn/observer.h"
#include "nn/probing.h"

namespace heed::models {
namespace {

bool all_full(const Tensor& lengths, int64_t length) {
  for (int64_t b = 0; b < lengths.size(0); ++b) {
    if (static_cast<int64_t>(lengths.at({b})) != length) return false;
  }
  return true;
}

}  // namespace

Value encode_batch(const Stack<EncoderLayer>& encoder, const Config& config, const Tensor& tokens,
                   const Tensor& lengths, const Tensor& types) {
  check_lengths(tokens, lengths);
  require(!types.defined() || (types.shape() == tokens.shape() && types.dtype() == DType::i32), "models",
          "token types (B, L) of i32 as the tokens, ", tokens.shape(), "; found ", types.shape(), " of ",
          types.dtype());
  const bool by_distance = config.window > 0 || config.relative_buckets > 0;
  const bool full = all_full(lengths, tokens.size(1));
  const bool watched = nn::active_probe() != nullptr || nn::active_observer() != nullptr;
  const bool padded = full || watched || SequencePartScope::active() != nullptr || (grad_enabled() && !by_distance);
  require(!padded || full || !by_distance, "models",
          "sequences of one length where attention by distance is watched or in parts; found a padded batch");
  if (padded) {
    // In full sequences no key is hidden.
    const AttentionOptions masks = {.key_lengths = by_distance ? Tensor() : lengths};
    const nn::Places places{.distance_bias = encoder.distance_bias()};
    return encoder({.ids = tokens, .types = types},
                   [&](const EncoderLayer& layer, const Value& x, size_t) { return layer.forward(x, masks, places); });
  }
  const Packing packing(lengths, tokens.size(1));
  if (packing.positions().numel() == 0) return Value(Tensor::zeros({tokens.size(0), tokens.size(1), config.width}));
  const nn::Places places{
      .starts = packing.starts(), .positions = packing.positions(), .distance_bias = encoder.distance_bias()};
  const Tokens packed{.ids = packing.pack(tokens),
                      .positions = packing.positions(),
                      .types = types.defined() ? packing.pack(types) : Tensor()};
  return packing.unpack(
      encoder(packed, [&](const EncoderLayer& layer, const Value& x, size_t) { return layer.forward(x, {}, places); }));
}

}  // namespace heed::models
