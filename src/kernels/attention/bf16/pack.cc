// Which unit multiplies pairs, and the packing that all of them share.
#include "kernels/attention/bf16/bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/bf16/pack.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/bf16/tile-inl.h"

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

// Whether every bf16 number of a row is finite.
HWY_INLINE bool finite_row(const uint16_t* row, int64_t columns) {
  bool finite = true;
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::Repartition<uint16_t, F> d16;
  const UV exponent = hn::Set(kU, 0x7F80);
  UV largest = hn::Zero(kU);
  for (; c + 2 * kLanes <= columns; c += 2 * kLanes) {
    const UV pair = hn::BitCast(kU, hn::LoadU(d16, row + c));
    largest = hn::Max(largest, hn::Max(hn::And(pair, exponent), hn::And(hn::ShiftRight<16>(pair), exponent)));
  }
  finite = hn::AllFalse(kU, hn::Eq(largest, exponent));
#endif
  for (; c < columns; ++c) finite = finite && (row[c] & 0x7F80) != 0x7F80;
  return finite;
}

// Two columns at a time, side by side as they are, are turned over as if they were one f32.
bool PackNarrowBlock(const uint16_t* from, int64_t from_row, int64_t count, int64_t keys, int64_t columns,
                     uint16_t* rows, uint16_t* turned, [[maybe_unused]] float* spare) {
  const int64_t stride = padded_depth(columns);
  bool finite = true;
  for (int64_t j = 0; j < count; ++j) finite &= finite_row(from + j * from_row, columns);
  if (rows != nullptr) {
    for (int64_t j = 0; j < count; ++j) {
      std::copy_n(from + j * from_row, columns, rows + j * stride);
      std::fill(rows + j * stride + columns, rows + (j + 1) * stride, uint16_t{0});
    }
    std::fill_n(rows + count * stride, (keys - count) * stride, uint16_t{0});
  }
  if (turned == nullptr) return finite;
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const float* lines[kBlockKeys];
  std::fill_n(spare, columns, 0.0f);
  for (int64_t j = 0; j < keys; ++j) {
    lines[j] = j < count ? reinterpret_cast<const float*>(from + j * from_row) : spare;
  }
  const hn::Rebind<uint16_t, F> d16;
  for (; c + 8 <= columns; c += 8) {
    for (int64_t j = 0; j < keys; j += kLanes) {
      FV v[4];
      HWY_UNROLL(4)
      for (int n = 0; n < 4; ++n) v[n] = load_blocks(lines + j + n, c / 2);
      transpose_blocks(v);
      HWY_UNROLL(4)
      for (int n = 0; n < 4; ++n) {
        const UV pair = hn::BitCast(kU, v[n]);
        uint16_t* const to = turned + (c + 2 * n) * kBlockKeys + j;
        hn::StoreU(hn::TruncateTo(d16, pair), d16, to);
        hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(pair)), d16, to + kBlockKeys);
      }
    }
  }
#endif
  for (; c < columns; ++c) {
    for (int64_t j = 0; j < keys; ++j) turned[c * kBlockKeys + j] = j < count ? from[j * from_row + c] : uint16_t{0};
  }
  std::fill_n(turned + columns * kBlockKeys, (padded(columns) - columns) * kBlockKeys, uint16_t{0});
  return finite;
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <atomic>

namespace heed::kernels {

HWY_EXPORT(PackBlock);
HWY_EXPORT(PackNarrowBlock);

void attention_pack_block(const float* from, int64_t from_row, int64_t count, int64_t columns, uint16_t* rows,
                          uint16_t* turned, float* spare) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(PackBlock)(from, from_row, count, columns, rows, turned, spare);
}

bool attention_pack_narrow_block(const uint16_t* from, int64_t from_row, int64_t count, int64_t keys, int64_t columns,
                                 uint16_t* rows, uint16_t* turned, float* spare) {
  dispatch_ready();
  return HWY_DYNAMIC_DISPATCH(PackNarrowBlock)(from, from_row, count, keys, columns, rows, turned, spare);
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
