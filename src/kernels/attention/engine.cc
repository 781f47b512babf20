#include "kernels/attention/engine.h"

#include <atomic>
#include <vector>

#include "base/fork.h"
#include "heed/cpu.h"
#include "kernels/attention/decode/decode.h"
#include "kernels/simd/peak.h"

namespace heed::kernels {
namespace {

// Decoding reads keys and values where they are, in whatever form.
constexpr Engine kDecode = {
    .name = "decode",
    .accepts =
        [](const EngineRequest& r) { return !r.backward && r.rows <= kDecodeRows && !r.every_score && !r.additive; },
    .whole_groups = true,
    .bf16_in_place = false,
    .forward_scratch = decode_scratch,
    .backward_scratch = nullptr,
    .bind = [](AttentionGroup&, Operands&, bool) {},
    .forward = [](const AttentionGroup& group, const Operands&, const TileOutputs& outputs, int64_t, int64_t,
                  float* scratch) { decode_group(group, outputs, scratch); },
    .backward = nullptr,
    .chunks = {.state_floats = decode_state_floats, .run = decode_chunk, .merge = decode_merge},
    .run_peak = run_peak,
};

constexpr Engine kF32Tiles = {
    .name = "f32 tiles",
    .accepts = [](const EngineRequest&) { return true; },
    .whole_groups = false,
    .bf16_in_place = false,
    .forward_scratch = forward_scratch,
    .backward_scratch = backward_scratch,
    .bind = [](AttentionGroup& group, Operands& operands, bool) { bind_f32(group, operands); },
    .forward = [](const AttentionGroup& group, const Operands&, const TileOutputs& outputs, int64_t first, int64_t rows,
                  float* scratch) { forward_tile(group, outputs, first, rows, scratch); },
    .backward = [](const AttentionGroup& group, const Operands&, const TileGradients& gradients, int64_t first,
                   int64_t rows, float* scratch) { backward_tile(group, gradients, first, rows, scratch); },
    .run_peak = run_peak,
};

std::atomic<const Engine*> asked_first{nullptr};

}  // namespace

std::span<const Engine* const> engines() {
  static const std::vector<const Engine*> table = [] {
    std::vector<const Engine*> all = {&kDecode};
    for (const Engine* const engine : {amx_engine(), avx512bf16_engine()}) {
      if (engine != nullptr) all.push_back(engine);
    }
    all.push_back(&kF32Tiles);
    return all;
  }();
  return table;
}
const MadeBeforeFork kEngines([] { (void)engines(); });

const Engine& choose_engine(const EngineRequest& request) {
  const Engine* const first = asked_first.load();
  if (first != nullptr && first->accepts(request)) return *first;
  for (const Engine* const engine : engines()) {
    if (engine->accepts(request)) return *engine;
  }
  return kF32Tiles;
}

const Engine& f32_tiles() { return kF32Tiles; }

const Engine* bf16_engine() {
  const Engine& engine = choose_engine({.rows = kTileQueries, .bf16 = true});
  return &engine == &kF32Tiles ? nullptr : &engine;
}

void ask_first(const Engine* engine) { asked_first.store(engine); }

}  // namespace heed::kernels
