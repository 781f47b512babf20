// The fused backward pass in f32.
#include "kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_backward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// The products by multiply-adds on vectors.
struct Vectors {
  const Workspace& w;
  bool query_finite, d_output_finite;  // of this tile

  Vectors(const Tile& tile, const Workspace& workspace)
      : w(workspace),
        query_finite(all_finite(w.query_columns, tile.width, 1, tile.group.size, tile.width)),
        d_output_finite(all_finite(w.d_output_columns, tile.width, 1, tile.group.value_size, tile.width)) {}

  void multiply_keys(const Tile& tile, const Block& block, float* scores) const {
    HWY_NAMESPACE::multiply_keys(tile, block, w.query_columns, scores);
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
                           .n = tile.width});
  }

  void add_gradients(const Tile& tile, const AttentionBackward& gradients, const Block& block, bool partial,
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
                            .n = stride};
      if (partial && !d_output_finite) {
        multiply_attended_depth(product, bits);
      } else {
        multiply<Into::added>(product);
      }
    }
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
                            .n = stride};
      if (partial && !query_finite) {
        multiply_attended_depth(product, bits);
      } else {
        multiply<Into::added>(product);
      }
    }
    if (gradients.d_query.data != nullptr) {
      const Product product{.c = w.d_query,
                            .c_row = tile.width,
                            .a = g.key.data + block.from * g.key.row,
                            .a_row = g.key.column,
                            .a_depth = g.key.row,
                            .x = w.d_scores,
                            .x_row = tile.width,
                            .rows = g.size,
                            .depth = block.count,
                            .n = tile.width};
      if (partial && !all_finite(product.a, g.key.row, g.key.column, block.count, g.size)) {
        multiply_attended_lanes<Into::added>(product, bits);
      } else {
        multiply<Into::added>(product);
      }
    }
  }
};

void BackwardTile(const AttentionGroup& group, const AttentionBackward& gradients, int64_t first, int64_t rows,
                  float* scratch) {
  const Tile tile(group, first, rows);
  Workspace w(tile, gradients, scratch);
  prepare(tile, gradients, group.scale, w);
  backward_tile(tile, Vectors(tile, w), gradients, w);
}

void CopyRows(const float* source, int64_t source_stride, float* destination, int64_t destination_stride, int64_t rows,
              int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, source += source_stride, destination += destination_stride) {
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) hn::StoreU(tidy(hn::LoadU(kF, source + c)), kF, destination + c);
    for (; c < columns; ++c) {
      destination[c] = source[c] == source[c] ? source[c] + 0.0f : std::numeric_limits<float>::quiet_NaN();
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(BackwardTile);
HWY_EXPORT(CopyRows);

int64_t attention_backward_scratch(const AttentionGroup& group) {
  const int64_t d = padded(group.size), dv = padded(group.value_size);
  return kTileRows * (3 * d + 2 * dv + std::max(kBlockKeys, dv) + 6 * kBlockKeys);
}

void attention_backward_tile(const AttentionGroup& group, const AttentionBackward& gradients, int64_t first,
                             int64_t rows, float* scratch) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(BackwardTile)(group, gradients, first, rows, scratch);
}

void attention_copy_rows(const float* source, int64_t source_stride, float* destination, int64_t destination_stride,
                         int64_t rows, int64_t columns) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(CopyRows)(source, source_stride, destination, destination_stride, rows, columns);
}

}  // namespace heed::kernels
#endif
