// Panels of keys and values in bf16.
#include <algorithm>
#include <cmath>

#include "kernels/attention/bf16/bf16.h"
#include "kernels/attention/engine.h"

namespace heed::kernels {
namespace {

struct Wanted {
  bool rows, columns;
};

// Keys or values of a group: `stored`, or else `dense`.
void make_panels(const StoredRows& stored, const StridedRows<const float>& dense, int64_t keys, int64_t columns,
                 bool whole_tiles, Wanted wanted, Bf16Memory::Side& side, Buffer<float>& spare, Bf16Panels& panels) {
  const int64_t blocks = (keys + kBlockKeys - 1) / kBlockKeys;
  panels = {.row = padded_depth(columns), .block = padded(columns) * kBlockKeys};
  // Contiguous rows of bf16 are packed as they are; all others by way of f32.
  const bool as_they_are =
      stored.data != nullptr && stored.element == Element::bf16 && stored.column == 1 && !stored.pages;
  if (wanted.rows && as_they_are && !whole_tiles && stored.row == columns && columns % 2 == 0) {  // read in place
    panels.rows = static_cast<const uint16_t*>(stored.data), panels.row = columns;
    wanted.rows = false;
    if (!wanted.columns) return;
  }
  // Products read whole tiles: rows and numbers after the last block, which meet zeros or are thrown away.
  const int64_t rows_needed = (blocks * kBlockKeys + kStripe) * panels.row;
  const int64_t columns_needed = blocks * panels.block + kBlockKeys;
  if (wanted.rows && side.rows.size() < rows_needed) side.rows = Buffer<uint16_t>(rows_needed);
  if (wanted.columns && side.columns.size() < columns_needed) side.columns = Buffer<uint16_t>(columns_needed);
  if (spare.size() < (kBlockKeys + 1) * columns) spare = Buffer<float>((kBlockKeys + 1) * columns);
  side.non_finite.clear();
  side.non_finite_begin.assign(1, 0);
  uint16_t* const rows = wanted.rows ? side.rows.data() : nullptr;
  uint16_t* const transposed = wanted.columns ? side.columns.data() : nullptr;
  float* const block_f32 = spare.data();
  float* const zeros = block_f32 + kBlockKeys * columns;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t from = block * kBlockKeys, count = std::min(kBlockKeys, keys - from);
    uint16_t* const own_rows = rows == nullptr ? nullptr : rows + from * panels.row;
    uint16_t* const own_columns = transposed == nullptr ? nullptr : transposed + block * panels.block;
    const int64_t filled = whole_tiles ? kBlockKeys : padded(count);
    if (as_they_are && repack_bf16_block(static_cast<const uint16_t*>(stored.data) + from * stored.row, stored.row,
                                         count, filled, columns, own_rows, own_columns, zeros)) {
      side.non_finite_begin.push_back(static_cast<int64_t>(side.non_finite.size()));
      continue;
    }
    if (stored.data != nullptr) {
      rows_to_f32(stored, columns, from, count, block_f32, columns);
    } else {
      for (int64_t j = 0; j < count; ++j) {
        const float* const row = dense.at(0, from + j);
        for (int64_t c = 0; c < columns; ++c) block_f32[j * columns + c] = row[c * dense.column];
      }
    }
    pack_bf16_block(block_f32, columns, count, columns, own_rows, own_columns, zeros);
    if (own_columns != nullptr) {
      for (int64_t n = 0; n < count * columns; ++n) {
        if (std::isfinite(block_f32[n])) continue;
        side.non_finite.push_back({from + n / columns, n % columns, block_f32[n]});
        own_columns[n % columns * kBlockKeys + n / columns] = 0;
      }
    }
    side.non_finite_begin.push_back(static_cast<int64_t>(side.non_finite.size()));
  }
  if (rows != nullptr) std::fill_n(rows + blocks * kBlockKeys * panels.row, kStripe * panels.row, uint16_t{0});
  if (transposed != nullptr) std::fill_n(transposed + blocks * panels.block, kBlockKeys, uint16_t{0});
  if (rows != nullptr) panels.rows = rows;
  panels.columns = transposed;
  panels.non_finite = side.non_finite.data(), panels.non_finite_begin = side.non_finite_begin.data();
}

}  // namespace

void bind_bf16(const AttentionGroup& group, bool whole_tiles, bool backward, Bf16Memory& memory) {
  make_panels(group.stored_key, group.key, group.keys, group.size, whole_tiles, {.rows = true, .columns = backward},
              memory.key, memory.block, memory.operands.key);
  make_panels(group.stored_value, group.value, group.keys, group.value_size, whole_tiles,
              {.rows = backward, .columns = true}, memory.value, memory.block, memory.operands.value);
}

bool suits_bf16_tiles(const EngineRequest& request) {
  return request.bf16 && !request.additive && (request.backward || request.every_score || request.rows > kDecodeRows);
}

}  // namespace heed::kernels
