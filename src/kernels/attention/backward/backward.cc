// The fused backward pass in f32.
#include "kernels/attention/backward/backward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/backward/backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/backward/backward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// The products in f32.
struct F32Backward {
  static constexpr bool kRounds = false;

  const BackwardScratch& w;
  kernels::Prefetch* const prefetch;
  const bool own_prefetch;             // it is this tile's: for its bias
  bool query_finite, d_output_finite;  // of this tile

  F32Backward(const Tile& tile, const BackwardScratch& workspace, kernels::Prefetch* group_prefetch, bool own)
      : w(workspace),
        prefetch(group_prefetch),
        own_prefetch(own),
        query_finite(all_finite(w.query_columns, tile.width, 1, tile.group.size, tile.width)),
        d_output_finite(all_finite(w.d_output_columns, tile.width, 1, tile.group.value_size, tile.width)) {}

  void multiply_keys(const Tile& tile, const Block& block, float* scores) const {
    if (own_prefetch) prefetch_bias(tile, block, block.count / 2 + tile.group.size / 8, *prefetch);
    key_products(tile, block, w.query_columns, scores, prefetch);
  }

  void multiply_values(const Tile& tile, const Block& block, float* d_weights) const {
    const AttentionGroup& g = tile.group;
    multiply<Into::fresh>({.c = d_weights,
                           .c_row = tile.width,
                           .a = g.value.data + block.from * g.value.row,
                           .a_row = g.value.row,
                           .a_depth = g.value.column,
                           .x = w.d_output_columns,
                           .x_row = tile.width,
                           .rows = block.count,
                           .depth = g.value_size,
                           .n = tile.width,
                           .prefetch = prefetch});
  }

  // Of s = sum_d a_d tanh(q_d + k_d): with t = tanh(q_d + k_d) and g = ds a_d (1 - t^2), dq_d += g, dk_d += g and
  // da_d += ds t. Lanes run over d, so that no sum crosses them.
  void add_additive_gradients(const Tile& tile, const TileGradients& gradients, const Block& block) const {
    const AttentionGroup& g = tile.group;
    const int64_t stride = padded(g.size);
    HWY_ALIGN float key[kLanes], weight[kLanes], product[kLanes];
    for (int64_t d = 0; d < g.size; d += kLanes) {
      const int64_t count = std::min(kLanes, g.size - d);
      for (int64_t j = 0; j < block.count; ++j) {
        for (int64_t n = 0; n < kLanes; ++n)
          key[n] = n < count ? g.key.at(0, block.from + j)[(d + n) * g.key.column] : 0;
        const FV k = hn::Load(kF, key);
        FV d_key = hn::Zero(kF), d_additive = hn::Zero(kF);
        int64_t head = -1;
        FV a = hn::Zero(kF);
        for (int64_t r = 0; r < tile.rows; ++r) {
          const float ds = w.d_scores[j * tile.width + r];
          if (ds == 0) continue;  // masked, or nothing to add
          if (tile.head[r] != head) {
            head = tile.head[r];
            const float* const from = g.additive.at(head, 0);
            for (int64_t n = 0; n < kLanes; ++n) weight[n] = n < count ? from[(d + n) * g.additive.column] : 0;
            a = hn::Load(kF, weight);
          }
          const FV t = attention_tanh(hn::Add(hn::Load(kF, w.query_rows + r * stride + d), k));
          const FV slope = hn::Mul(hn::Mul(all(ds), a), fma_negated(t, t, all(1.0f)));
          d_key = hn::Add(d_key, slope);
          float* const d_query = w.d_query + r * stride + d;
          if (gradients.d_query.data != nullptr) hn::Store(hn::Add(hn::Load(kF, d_query), slope), kF, d_query);
          d_additive = fma(all(ds), t, d_additive);
        }
        if (gradients.d_additive != nullptr) {  // one head then
          hn::Store(d_additive, kF, product);
          for (int64_t n = 0; n < count; ++n) gradients.d_additive[d + n] += static_cast<double>(product[n]);
        }
        if (gradients.d_key == nullptr) continue;
        float* const to = gradients.d_key + (block.from + j) * stride + d;
        hn::Store(hn::Add(hn::Load(kF, to), d_key), kF, to);
      }
    }
  }

  void add_to_queries(const Tile& tile, const Block& block, bool partial, const Bits& bits) const {
    const AttentionGroup& g = tile.group;
    if (g.additive.data != nullptr) return;  // add_to_keys() does both
    const Product product{.c = w.d_query,
                          .c_row = tile.width,
                          .a = g.key.data + block.from * g.key.row,
                          .a_row = g.key.column,
                          .a_depth = g.key.row,
                          .x = w.d_scores,
                          .x_row = tile.width,
                          .rows = g.size,
                          .depth = block.count,
                          .n = tile.width,
                          .prefetch = prefetch};
    if (partial && !all_finite(product.a, g.key.row, g.key.column, block.count, g.size)) {
      multiply_attended_lanes<Into::added>(product, bits);
    } else {
      multiply<Into::added>(product);
    }
  }

  void add_to_keys(const Tile& tile, const TileGradients& gradients, const Block& block, bool partial,
                   const Bits& bits) const {
    const AttentionGroup& g = tile.group;
    if (gradients.d_value != nullptr) {
      const int64_t stride = padded(g.value_size);
      const Product product{.c = gradients.d_value + block.from * stride,
                            .c_row = stride,
                            .a = w.scores,
                            .a_row = tile.width,
                            .a_depth = 1,
                            .x = w.d_output_rows,
                            .x_row = stride,
                            .rows = block.count,
                            .depth = tile.rows,
                            .n = stride,
                            .prefetch = prefetch};
      if (partial && !d_output_finite) {
        multiply_attended_depth(product, bits);
      } else {
        multiply<Into::added>(product);
      }
    }
    if (g.additive.data != nullptr) return add_additive_gradients(tile, gradients, block);
    if (gradients.d_key != nullptr) {
      const int64_t stride = padded(g.size);
      const Product product{.c = gradients.d_key + block.from * stride,
                            .c_row = stride,
                            .a = w.d_scores,
                            .a_row = tile.width,
                            .a_depth = 1,
                            .x = w.query_rows,
                            .x_row = stride,
                            .rows = block.count,
                            .depth = tile.rows,
                            .n = stride,
                            .prefetch = prefetch};
      if (partial && !query_finite) {
        multiply_attended_depth(product, bits);
      } else {
        multiply<Into::added>(product);
      }
    }
  }
};

void run_backward_tile(const AttentionGroup& group, const TileGradients& gradients, int64_t first, int64_t rows,
                       float* scratch) {
  const Tile tile(group, first, rows);
  BackwardScratch w(tile, gradients, scratch);
  prepare(tile, gradients, group.scale, w);
  const bool own = group.bias.data != nullptr;
  kernels::Prefetch prefetch;
  backward_tile_with(tile, F32Backward(tile, w, own ? &prefetch : gradients.prefetch, own), gradients, w);
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_backward_tile);

int64_t backward_scratch(const AttentionGroup& group) {
  const int64_t d = padded(group.size), dv = padded(group.value_size);
  return kTileQueries * (4 * d + 2 * dv + std::max(kBlockKeys, dv) + 6 * kBlockKeys);
}

void backward_tile(const AttentionGroup& group, const TileGradients& gradients, int64_t first, int64_t rows,
                   float* scratch) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_backward_tile)(group, gradients, first, rows, scratch);
}

}  // namespace heed::kernels
#endif
