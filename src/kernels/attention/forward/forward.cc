// The fused forward pass in f32.
#include "kernels/attention/forward/forward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/forward/forward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/forward/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// The products in f32.
struct F32Forward {
  static constexpr bool kRounds = false;
  const float* columns;  // (D, width): the scaled queries
  kernels::Prefetch* prefetch;
  bool own_prefetch;  // `prefetch` is this tile's own, for its bias

  void multiply_keys(const Tile& tile, const Block& block, float* scores) const {
    if (own_prefetch) prefetch_bias(tile, block, block.count / 8 + tile.group.value_size / 8, *prefetch);
    key_products(tile, block, columns, scores, prefetch);
  }

  static uint32_t* weights_as_pairs(const Tile&, const Block&) { return nullptr; }

  void add_values(const Tile& tile, const Block& block, bool partial, const Bits& bits, const float* weights,
                  const float* factors, bool grew, State& state) const {
    const AttentionGroup& g = tile.group;
    const Product product{.c = state.output,
                          .c_row = tile.width,
                          .a = g.value.data + block.from * g.value.row,
                          .a_row = g.value.column,
                          .a_depth = g.value.row,
                          .x = weights,
                          .x_row = tile.width,
                          .rows = g.value_size,
                          .depth = block.count,
                          .n = tile.width,
                          .factors = factors,
                          .prefetch = prefetch};
    if (partial && !all_finite(product.a, g.value.row, g.value.column, block.count, g.value_size)) {
      if (state.empty) std::fill_n(state.output, g.value_size * tile.width, 0.0f);
      multiply_attended_lanes<Into::scaled>(product, bits);
    } else if (state.empty) {
      multiply<Into::fresh>(product);
    } else if (grew) {
      multiply<Into::scaled>(product);
    } else {
      multiply<Into::added>(product);
    }
    state.empty = false;
  }

  static void write(const Tile& tile, const TileOutputs& outputs, const State& total, const float* factors) {
    write_output(tile, outputs, total, factors);
  }
};

void run_forward_tile(const AttentionGroup& group, const TileOutputs& outputs, int64_t first, int64_t rows,
                      float* scratch) {
  const Tile tile(group, first, rows);
  pack_queries(tile, group.scale, scratch);
  const bool own = group.bias.data != nullptr;
  kernels::Prefetch prefetch;
  forward_tile_with(tile, F32Forward{scratch, own ? &prefetch : outputs.prefetch, own}, outputs,
                    scratch + packed_queries(group, tile.width));
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_forward_tile);

int64_t forward_scratch(const AttentionGroup& group) {
  return kTileQueries * (2 * group.size + 2 * kBlockKeys + 2 * group.value_size);
}

void forward_tile(const AttentionGroup& group, const TileOutputs& outputs, int64_t first, int64_t rows,
                  float* scratch) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_forward_tile)(group, outputs, first, rows, scratch);
}

}  // namespace heed::kernels
#endif
