// Packing keys and values as bf16 panels.
#include <algorithm>

#include "base/half.h"
#include "kernels/attention/engine.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/bf16/pack.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/bf16/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void run_pack_block(const float* from, int64_t from_row, int64_t count, int64_t columns, uint16_t* rows,
                    uint16_t* transposed, float* spare) {
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
  if (transposed == nullptr) return;
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
      for (int n = 0; n < 4; ++n) store_rounded(v[n], transposed + (c + n) * kBlockKeys + j);
    }
  }
#endif
  for (; c < columns; ++c) {
    for (int64_t j = 0; j < kBlockKeys; ++j) transposed[c * kBlockKeys + j] = f32_to_bf16(lines[j][c]);
  }
  std::fill_n(transposed + columns * kBlockKeys, (padded(columns) - columns) * kBlockKeys, uint16_t{0});
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

// Two contiguous columns are transposed together, as if they were one f32.
bool run_repack_block(const uint16_t* from, int64_t from_row, int64_t count, int64_t keys, int64_t columns,
                      uint16_t* rows, uint16_t* transposed, [[maybe_unused]] float* spare) {
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
  if (transposed == nullptr) return finite;
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
        uint16_t* const to = transposed + (c + 2 * n) * kBlockKeys + j;
        hn::StoreU(hn::TruncateTo(d16, pair), d16, to);
        hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(pair)), d16, to + kBlockKeys);
      }
    }
  }
#endif
  for (; c < columns; ++c) {
    for (int64_t j = 0; j < keys; ++j)
      transposed[c * kBlockKeys + j] = j < count ? from[j * from_row + c] : uint16_t{0};
  }
  std::fill_n(transposed + columns * kBlockKeys, (padded(columns) - columns) * kBlockKeys, uint16_t{0});
  return finite;
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_pack_block);
HWY_EXPORT(run_repack_block);

void pack_bf16_block(const float* from, int64_t from_row, int64_t count, int64_t columns, uint16_t* rows,
                     uint16_t* transposed, float* spare) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_pack_block)(from, from_row, count, columns, rows, transposed, spare);
}

bool repack_bf16_block(const uint16_t* from, int64_t from_row, int64_t count, int64_t keys, int64_t columns,
                       uint16_t* rows, uint16_t* transposed, float* spare) {
  dispatch_ready();
  return HWY_DYNAMIC_DISPATCH(run_repack_block)(from, from_row, count, keys, columns, rows, transposed, spare);
}

int64_t bf16_forward_scratch(const AttentionGroup& group) {
  const int64_t packed = padded_depth(group.size) / 2 + kBlockKeys / 2;
  return forward_scratch(group) + kTileQueries * packed;
}

int64_t bf16_backward_scratch(const AttentionGroup& group) {
  const int64_t d = padded_depth(group.size), dv = padded_depth(group.value_size);
  const int64_t columns = kTileQueries * (d + dv + kBlockKeys) / 2, rows = kBlockKeys * (d + dv + kBlockKeys) / 2;
  return backward_scratch(group) + columns + rows + kTileQueries * std::max(d, dv);
}

}  // namespace heed::kernels
#endif
