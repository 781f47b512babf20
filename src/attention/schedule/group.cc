// Cutting an attention call into groups and tiles.
#include "attention/schedule/group.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heed {

kernels::Element element_of(DType dtype) {
  if (dtype == DType::bf16) return kernels::Element::bf16;
  if (dtype == DType::f16) return kernels::Element::f16;
  return dtype == DType::i8 ? kernels::Element::i8 : kernels::Element::f32;
}

namespace {

// Rows of key/value head h of sequence b. `pages` undefined: they are those of sequence b, as a page of its own.
kernels::StoredRows stored_rows(const Tensor& rows, const Tensor& scales, const Tensor& pages, int64_t b, int64_t h) {
  kernels::StoredRows stored;
  const bool paged = pages.defined();
  const Shape& strides = rows.strides();
  const int64_t start = (paged ? 0 : b * strides[0]) + h * strides[1];
  stored.data = static_cast<const char*>(rows.raw()) + start * size_of(rows.dtype());
  stored.element = element_of(rows.dtype());
  stored.page = strides[0], stored.row = strides[2], stored.column = strides[3];
  if (scales.defined()) {
    stored.scales = scales.data<float>() + (paged ? 0 : b * scales.stride(0)) + h * scales.stride(1);
    stored.scale_page = scales.stride(0), stored.scale_row = scales.stride(2);
  }
  if (paged) {
    stored.pages = pages.data<int32_t>() + b * pages.stride(0);
    stored.pages_step = pages.stride(1);
    stored.page_rows = rows.size(2);
  }
  return stored;
}

}  // namespace

kernels::Strided<uint16_t> pairs_of_columns(const Tensor& tensor, int64_t b, int64_t h) {
  if (tensor.dtype() != DType::bf16 || tensor.stride(3) != 1) return {};
  const Shape& strides = tensor.strides();
  auto* const data = static_cast<uint16_t*>(tensor.raw()) + b * strides[0] + h * strides[1];
  const bool even = (tensor.size(3) | strides[1] | strides[2]) % 2 == 0;
  if (!even || reinterpret_cast<uintptr_t>(data) % 4 != 0) return {};
  return {data, strides[1], strides[2], 1};
}

kernels::Strided<float> words_of(const Tensor& tensor, int64_t b, int64_t h) {
  if (tensor.dtype() == DType::f32) return strided<float>(tensor, b, h);
  const kernels::Strided<uint16_t> pairs = pairs_of_columns(tensor, b, h);
  return {reinterpret_cast<float*>(pairs.data), pairs.head / 2, pairs.row / 2, 1};
}

kernels::AttentionGroup make_group(const AttentionProblem& problem, const Tensor& query, const KeyValues& memory,
                                   int64_t b, int64_t first_head, int64_t heads) {
  const AttentionOptions& options = problem.options;
  const int64_t kv_head = problem.heads == problem.kv_heads ? first_head : first_head / problem.group();
  const KeyRange range = problem.unclamped_range(b);
  kernels::AttentionGroup group;
  group.heads = heads;
  group.queries = problem.queries;
  group.keys = problem.key_length(b);
  group.size = problem.size;
  group.value_size = problem.value_size;
  if (query.dtype() == DType::f32) group.query = strided<const float>(query, b, first_head);
  if (memory.key.dtype() == DType::f32 && !memory.pages.defined()) {
    group.key = strided<const float>(memory.key, b, kv_head);
    group.value = strided<const float>(memory.value, b, kv_head);
  } else {
    group.stored_key = stored_rows(memory.key, memory.key_scales, memory.pages, b, kv_head);
    group.stored_value = stored_rows(memory.value, memory.value_scales, memory.pages, b, kv_head);
  }
  group.scale = static_cast<float>(problem.scale);
  if (problem.additive.defined()) {
    const Tensor& weights = problem.additive;
    group.additive = {weights.data<float>() + first_head * weights.stride(0), weights.stride(0), 0, weights.stride(1)};
  }
  group.stages = problem.compiled.data();
  group.stage_count = static_cast<int64_t>(problem.compiled.size());
  group.first_shift = range.begin;
  group.last_shift = range.end;
  group.offset = problem.score_offset(b);
  if (problem.mask.defined()) group.mask = strided<const bool>(problem.mask, b, first_head);
  if (problem.bias.defined()) group.bias = strided<const float>(problem.bias, b, first_head);
  const auto per_head = [first_head](const Tensor& tensor) {
    return kernels::Strided<const float>{tensor.data<float>() + first_head * tensor.stride(0), tensor.stride(0), 0, 0};
  };
  if (options.sinks.defined()) group.sinks = per_head(options.sinks);
  const auto per_sequence = [b](const Tensor& tensor) {
    return kernels::Strided<const int32_t>{tensor.data<int32_t>() + b * tensor.stride(0), 0, tensor.stride(1), 0};
  };
  if (options.query_documents.defined()) {
    group.query_documents = per_sequence(options.query_documents);
    group.key_documents = per_sequence(options.key_documents);
  }
  if (options.dropout.rate > 0) {
    group.dropout_threshold = attention_dropout_threshold(options.dropout.rate);
    group.dropout_scale = 1.0f / (1.0f - options.dropout.rate);
    group.dropout_seed = options.dropout.seed;
  }
  group.sequence = static_cast<uint32_t>(problem.sequence + b);
  group.first_head = static_cast<uint32_t>(first_head);
  group.single_chunk = problem.keys <= kernels::kChunkKeys;
  return group;
}

void expect_next(kernels::AttentionGroup& group, const KeyValues& memory, int64_t b, int64_t h) {
  if (memory.pages.defined()) return;  // what lies behind the end of a sequence's table is not known to be a page
  group.next_key = stored_rows(memory.key, memory.key_scales, memory.pages, b, h);
  group.next_value = stored_rows(memory.value, memory.value_scales, memory.pages, b, h);
}

RowTiles::RowTiles(int64_t heads, int64_t queries)
    : segments_(queries < kernels::kTileRows ? 1 : heads),
      segment_rows_(queries < kernels::kTileRows ? heads * queries : queries),
      per_segment_((segment_rows_ + kernels::kTileRows - 1) / kernels::kTileRows) {}

RowTiles::Rows RowTiles::operator[](int64_t tile) const {
  if (per_segment_ == 1) return {tile * segment_rows_, segment_rows_};
  const int64_t index = tile % per_segment_, segment = tile / per_segment_ * segment_rows_;
  const int64_t start = index * kernels::kTileRows, left = segment_rows_ - start;
  // Sixteen rows alone keep the multiply-adds only 70 % busy: the last 49 to 64 rows are cut at 32 instead of 48.
  const int64_t tail = segment_rows_ % kernels::kTileRows;
  if (tail > 0 && tail <= kernels::kColumns) {
    if (index == per_segment_ - 2) return {segment + start, 2 * kernels::kColumns};
    if (index == per_segment_ - 1) return {segment + start - kernels::kColumns, left + kernels::kColumns};
  }
  return {segment + start, std::min(kernels::kTileRows, left)};
}

void TileRows::enter(const Tensor& tensor, int64_t b, int64_t h) {
  leave();
  if (tensor.dtype() == DType::f32) return;
  const Shape& strides = tensor.strides();
  base_ = static_cast<char*>(tensor.raw()) + (b * strides[0] + h * strides[1]) * size_of(tensor.dtype());
  element_ = element_of(tensor.dtype());
  head_ = strides[1], row_ = strides[2], column_ = strides[3];
  queries_ = tensor.size(2), columns_ = tensor.size(3);
}

template <class F>
void TileRows::for_heads(RowTiles::Rows rows, F&& f) const {
  float* wide = memory_.data();
  int64_t head = rows.first / queries_, query = rows.first % queries_;
  for (int64_t left = rows.count; left > 0; ++head) {
    const int64_t count = std::min(left, queries_ - query);
    f(base_ + (head * head_ + query * row_) * size_of(DType::bf16), count, wide);
    wide += count * columns_;
    left -= count, query = 0;
  }
}

kernels::Strided<float> TileRows::room(RowTiles::Rows rows) {
  if (memory_.size() < rows.count * columns_) memory_ = Buffer<float>(rows.count * columns_);
  return {memory_.data() - rows.first * columns_, queries_ * columns_, columns_, 1};
}

kernels::Strided<const float> TileRows::widened(RowTiles::Rows rows) {
  const kernels::Strided<float> wide = room(rows);
  kernels::StoredRows stored;
  stored.element = element_, stored.row = row_, stored.column = column_;
  for_heads(rows, [&](const char* from, int64_t count, float* to) {
    stored.data = from;
    kernels::attention_unpack_rows(stored, columns_, 0, count, to, columns_);
  });
  return {wide.data, wide.head, wide.row, wide.column};
}

void TileRows::write(RowTiles::Rows rows) const {
  for_heads(rows, [&](char* to, int64_t count, const float* from) {
    kernels::attention_narrow_rows(from, columns_, count, columns_, element_, to, row_);
  });
}

void TilesAhead::enter(const AttentionProblem& p, int64_t columns, int64_t tiles, int64_t calls) {
  tiles_ = tiles, calls_ = calls;
  later_count_ = read_count_ = 0;
  // From 12 MB on operands are in memory, not in a cache. Asking takes 2 ns a line, which short sequences in the cache
  // would notice: 16 rows (D = 32) by a quarter.
  on_ = p.batch * (p.heads * p.queries + p.kv_heads * p.keys) * columns >= int64_t{3} << 20;
  short_ = on_ && (p.group() * p.queries + p.keys) * columns <= int64_t{1} << 16;  // 256 KB
}

void TilesAhead::after(const kernels::Strided<const float>& rows, int64_t count, int64_t columns) {
  if (rows.data == nullptr || rows.column != 1 || later_count_ == kMost) return;
  later_[later_count_++] = {rows, count, columns, tiles_ == 1 ? count : (count + tiles_ - 1) / tiles_};
}

void TilesAhead::read(const kernels::Strided<const float>& rows, int64_t columns) {
  if (!on_ || short_ || rows.data == nullptr || rows.column != 1 || read_count_ == kMostRead) return;
  read_[read_count_++] = {rows, columns};
}

void TilesAhead::add(const kernels::Strided<const float>& operand, int64_t columns, int64_t queries,
                     RowTiles::Rows rows) {
  int64_t head = 0, query = rows.first;
  if (query >= queries) head = query / queries, query %= queries;
  for (int64_t left = rows.count; left > 0; ++head) {
    const int64_t count = std::min(left, queries - query);
    ahead_.add(operand.at(head, query), operand.row, columns, count);
    left -= count, query = 0;
  }
}

kernels::Ahead* TilesAhead::tile(int64_t n, const kernels::Strided<float>& output, int64_t columns, int64_t queries,
                                 RowTiles::Rows rows, RowTiles::Rows next) {
  if (!on_) return nullptr;
  ahead_.clear();
  add(output, columns, queries, rows);
  for (int at = 0; at < read_count_; ++at) add(read_[at].rows, read_[at].columns, queries, next);
  for (int at = 0; at < later_count_; ++at) {
    const Later& later = later_[at];
    const int64_t first = n * later.share;
    if (first >= later.count) continue;
    ahead_.add(later.rows.at(0, first), later.rows.row, later.columns, std::min(later.share, later.count - first));
  }
  ahead_.spread(calls_);
  return &ahead_;
}

void DenseKeys::load(kernels::AttentionGroup& group) {
  const bool stored = group.stored_key.data != nullptr;
  const bool dense = group.key.column == 1 && group.key.row == group.size && group.value.column == 1 &&
                     group.value.row == group.value_size;
  if (!stored && (dense || group.heads * group.queries < kernels::kTileRows)) return;
  const int64_t needed = group.keys * (group.size + group.value_size);
  if (memory_.size() < needed) memory_ = Buffer<float>(needed);
  float* to = memory_.data();
  const auto copy = [&](kernels::Strided<const float>& source, kernels::StoredRows& rows, int64_t columns) {
    float* const begin = to;
    if (stored) {
      kernels::attention_unpack_rows(rows, columns, 0, group.keys, to, columns);
      to += group.keys * columns;
      source = {begin, 0, columns, 1};
      rows = {};
      return;
    }
    for (int64_t j = 0; j < group.keys; ++j, to += columns) {
      const float* const row = source.at(0, j);
      if (source.column == 1) {
        std::memcpy(to, row, static_cast<size_t>(columns) * sizeof(float));
      } else {
        for (int64_t d = 0; d < columns; ++d) to[d] = row[d * source.column];
      }
    }
    source = {begin, 0, columns, 1};
  };
  copy(group.key, group.stored_key, group.size);
  copy(group.value, group.stored_value, group.value_size);
}

void PairedKeys::load_side(const kernels::AttentionPairs& pairs, const kernels::AttentionGroup& group, bool values,
                           bool want_rows, bool want_columns) {
  using kernels::kBlockKeys, kernels::padded;
  const kernels::StoredRows& stored = values ? group.stored_value : group.stored_key;
  const kernels::Strided<const float>& dense = values ? group.value : group.key;
  const int64_t columns = values ? group.value_size : group.size, blocks = (group.keys + kBlockKeys - 1) / kBlockKeys;
  Side& side = sides_[values ? 1 : 0];
  kernels::PackedRows& packed = values ? packed_.value : packed_.key;
  packed = {.row = kernels::padded_depth(columns), .block = padded(columns) * kBlockKeys};
  // Rows of bf16 in one piece are packed as they are; all others by way of f32.
  const bool as_they_are =
      stored.data != nullptr && stored.element == kernels::Element::bf16 && stored.column == 1 && !stored.pages;
  if (want_rows && as_they_are && !pairs.whole_tiles && stored.row == columns && columns % 2 == 0) {  // read in place
    packed.rows = static_cast<const uint16_t*>(stored.data), packed.row = columns;
    want_rows = false;
    if (!want_columns) return;
  }
  // Products read whole tiles: rows and numbers behind the last block, which meet zeros or are thrown away.
  const int64_t rows_needed = (blocks * kBlockKeys + kernels::kColumns) * packed.row;
  const int64_t columns_needed = blocks * packed.block + kBlockKeys;
  if (want_rows && side.rows.size() < rows_needed) side.rows = Buffer<uint16_t>(rows_needed);
  if (want_columns && side.columns.size() < columns_needed) side.columns = Buffer<uint16_t>(columns_needed);
  if (block_.size() < (kBlockKeys + 1) * columns) block_ = Buffer<float>((kBlockKeys + 1) * columns);
  side.special.clear();
  side.special_begin.assign(1, 0);
  uint16_t* const rows = want_rows ? side.rows.data() : nullptr;
  uint16_t* const turned = want_columns ? side.columns.data() : nullptr;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t from = block * kBlockKeys, count = std::min(kBlockKeys, group.keys - from);
    uint16_t* const own_rows = rows == nullptr ? nullptr : rows + from * packed.row;
    uint16_t* const own_columns = turned == nullptr ? nullptr : turned + block * packed.block;
    float* const spare = block_.data() + kBlockKeys * columns;
    const int64_t filled = pairs.whole_tiles ? kBlockKeys : padded(count);
    if (as_they_are &&
        kernels::attention_pack_narrow_block(static_cast<const uint16_t*>(stored.data) + from * stored.row, stored.row,
                                             count, filled, columns, own_rows, own_columns, spare)) {
      side.special_begin.push_back(static_cast<int64_t>(side.special.size()));
      continue;
    }
    if (stored.data != nullptr) {
      kernels::attention_unpack_rows(stored, columns, from, count, block_.data(), columns);
    } else {
      for (int64_t j = 0; j < count; ++j) {
        const float* const row = dense.at(0, from + j);
        for (int64_t c = 0; c < columns; ++c) block_[j * columns + c] = row[c * dense.column];
      }
    }
    kernels::attention_pack_block(block_.data(), columns, count, columns, own_rows, own_columns, spare);
    if (own_columns != nullptr) {
      for (int64_t n = 0; n < count * columns; ++n) {
        if (std::isfinite(block_[n])) continue;
        side.special.push_back({from + n / columns, n % columns, block_[n]});
        own_columns[n % columns * kBlockKeys + n / columns] = 0;
      }
    }
    side.special_begin.push_back(static_cast<int64_t>(side.special.size()));
  }
  if (rows != nullptr)
    std::fill_n(rows + blocks * kBlockKeys * packed.row, kernels::kColumns * packed.row, uint16_t{0});
  if (turned != nullptr) std::fill_n(turned + blocks * packed.block, kBlockKeys, uint16_t{0});
  if (rows != nullptr) packed.rows = rows;
  packed.columns = turned;
  packed.special = side.special.data(), packed.special_begin = side.special_begin.data();
}

void PairedKeys::load(const kernels::AttentionPairs& pairs, const kernels::AttentionGroup& group, bool backward) {
  load_side(pairs, group, false, true, backward);
  load_side(pairs, group, true, backward, true);
}

}  // namespace heed
