// Which unit multiplies pairs, and the packing that all of them share.
#include "kernels/attention_pairs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_pairs.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void PackBlock(const float* from, int64_t from_row, int64_t count, int64_t columns, uint16_t* rows, uint16_t* turned,
               float* spare) {
  const int64_t stride = padded_depth(columns);
  if (rows != nullptr) {
    for (int64_t j = 0; j < count; ++j) {
      uint16_t* const to = rows + j * stride;
      const float* const row = from + j * from_row;
      int64_t c = 0;
      for (; c + kLanes <= columns; c += kLanes) store_rounded(hn::LoadU(kF, row + c), to + c);
      for (; c < columns; ++c) to[c] = f32_to_bf16(row[c]);
      std::fill(to + c, to + stride, uint16_t{0});
    }
    std::fill_n(rows + count * stride, (kBlockKeys - count) * stride, uint16_t{0});
  }
  if (turned == nullptr) return;
  const float* lines[kBlockKeys];
  std::fill_n(spare, columns, 0.0f);
  for (int64_t j = 0; j < kBlockKeys; ++j) lines[j] = j < count ? from + j * from_row : spare;
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; c + 4 <= columns; c += 4) {
    for (int64_t j = 0; j < kBlockKeys; j += kLanes) {
      FV v[4];
      HWY_UNROLL(4)
      for (int n = 0; n < 4; ++n) v[n] = load_blocks(lines + j + n, c);
      transpose_blocks(v);
      HWY_UNROLL(4)
      for (int n = 0; n < 4; ++n) store_rounded(v[n], turned + (c + n) * kBlockKeys + j);
    }
  }
#endif
  for (; c < columns; ++c) {
    for (int64_t j = 0; j < kBlockKeys; ++j) turned[c * kBlockKeys + j] = f32_to_bf16(lines[j][c]);
  }
  std::fill_n(turned + columns * kBlockKeys, (padded(columns) - columns) * kBlockKeys, uint16_t{0});
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <atomic>

namespace heed::kernels {

HWY_EXPORT(PackBlock);

void attention_pack_block(const float* from, int64_t from_row, int64_t count, int64_t columns, uint16_t* rows,
                          uint16_t* turned, float* spare) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(PackBlock)(from, from_row, count, columns, rows, turned, spare);
}

int64_t attention_pairs_forward_scratch(const AttentionGroup& group) {
  const int64_t packed = padded_depth(group.size) / 2 + kBlockKeys / 2;
  return attention_forward_scratch(group) + kTileRows * packed;
}

int64_t attention_pairs_backward_scratch(const AttentionGroup& group) {
  const int64_t d = padded_depth(group.size), dv = padded_depth(group.value_size);
  const int64_t columns = kTileRows * (d + dv + kBlockKeys) / 2, rows = kBlockKeys * (d + dv + kBlockKeys) / 2;
  return attention_backward_scratch(group) + columns + rows + kTileRows * std::max(d, dv);
}

namespace {
std::atomic<const AttentionPairs*> chosen{nullptr};
}  // namespace

void use_attention_pairs(const AttentionPairs* pairs) { chosen.store(pairs); }

const AttentionPairs* attention_pairs() {
  if (const AttentionPairs* const pairs = chosen.load()) return pairs;
  switch (active_isa()) {
    case Isa::avx512bf16: return attention_avx512bf16();
    case Isa::amx: return attention_amx();
    default: return nullptr;
  }
}

}  // namespace heed::kernels
#endif
