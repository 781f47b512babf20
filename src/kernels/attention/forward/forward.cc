// The fused forward pass in f32.
#include "kernels/attention/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/forward/forward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/forward/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// The products by multiply-adds on vectors.
struct Vectors {
  static constexpr bool kRounds = false;
  const float* columns;  // (D, width): the scaled queries
  kernels::Ahead* ahead;
  bool own_ahead;  // it is this tile's: for its bias

  void multiply_keys(const Tile& tile, const Block& block, float* scores) const {
    if (own_ahead) ask_for_bias(tile, block, block.count / 8 + tile.group.value_size / 8, *ahead);
    HWY_NAMESPACE::multiply_keys(tile, block, columns, scores, ahead);
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
                          .ahead = ahead};
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

  static void write(const Tile& tile, const AttentionForward& result, const State& total, const float* factors) {
    write_output(tile, result, total, factors);
  }
};

void ForwardTile(const AttentionGroup& group, const AttentionForward& result, int64_t first, int64_t rows,
                 float* scratch) {
  const Tile tile(group, first, rows);
  pack_queries(tile, group.scale, scratch);
  const bool own = group.bias.data != nullptr;
  kernels::Ahead ahead;
  forward_tile(tile, Vectors{scratch, own ? &ahead : result.ahead, own}, result,
               scratch + packed_queries(group, tile.width));
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(ForwardTile);

int64_t attention_forward_scratch(const AttentionGroup& group) {
  return kTileRows * (2 * group.size + 2 * kBlockKeys + 2 * group.value_size);
}

void attention_forward_tile(const AttentionGroup& group, const AttentionForward& result, int64_t first, int64_t rows,
                            float* scratch) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(ForwardTile)(group, result, first, rows, scratch);
}

}  // namespace heed::kernels
#endif
