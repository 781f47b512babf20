// Decoding: bound by reading keys and values, not by arithmetic.
//
// A tile would leave most lanes idle. Here the lanes run over keys for the scores (the keys are transposed in
// registers, once for all rows) and over the columns of the values for the output. Every number is the same chain of
// fused multiply-adds as in forward_tile(), so the bits are the same.
#include "kernels/attention/decode/decode.h"

#include <span>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/decode/decode.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/decode/short-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void drop_weights(const DecodeGroup& g, const DecodeBlock& p) {
  Bits kept;
  find_kept(g.tile, p.block, kept);
  for (int64_t r = 0; r < g.tile.rows; ++r) {
    float* const weights = p.scores + r * kChunkKeys;
    for (int64_t j = 0; j < p.block.count; j += kLanes) {
      hn::Store(hn::IfThenElseZero(test_keys(bits_of(kept, r), j), hn::Load(kF, weights + j)), kF, weights + j);
    }
  }
}

void merge_state(const DecodeGroup& g, State& next, State& total) {
  HWY_ALIGN float old_factors[kTileQueries], new_factors[kTileQueries];
  if (!merge_sums(g.tile, next, total, old_factors, new_factors)) return;
  for (int64_t r = 0; r < g.tile.rows; ++r) {
    for (int64_t d = 0; d < g.stride; d += kLanes) {
      float* const o = total.output + r * g.stride + d;
      const FV scaled = hn::Mul(hn::Load(kF, o), all(old_factors[r]));
      hn::Store(fma(hn::Load(kF, next.output + r * g.stride + d), all(new_factors[r]), scaled), kF, o);
    }
  }
}

// Scratch cut up, queries scaled, and the blocks of the chunk at hand.
struct Decoding {
  Tile tile;
  DecodeGroup g;
  State total, chunk;
  DecodeBlock blocks[kChunkKeys / kBlockKeys];
  int64_t block_count = 0;

  Decoding(const AttentionGroup& group, float* scratch)
      : tile(group, 0, group.heads * group.queries),
        g{.tile = tile,
          .group = group,
          .stride = padded(group.value_size),
          .key = stored(group.stored_key, group.key),
          .value = stored(group.stored_value, group.value)} {
    const auto allot = [&](int64_t count) { return std::exchange(scratch, scratch + padded(count)); };
    g.query = allot(kDecodeRows * group.size);
    g.scores = allot(kDecodeRows * kChunkKeys);
    g.bias = allot(kDecodeRows * kBlockKeys);
    total.output = allot(kDecodeRows * g.stride);
    chunk.output = allot(kDecodeRows * g.stride);
    g.spare = allot(kBlockKeys * std::max(g.stride, padded(group.size)));
    total.clear(tile.width);
    for (int64_t r = 0; r < tile.rows; ++r) {
      const float* const row = group.query.at(tile.head[r], tile.query[r]);
      for (int64_t d = 0; d < group.size; ++d) g.query[r * group.size + d] = row[d * group.query.column] * group.scale;
    }
  }

  void add(const Block& block, Coverage coverage, const Bits& bits) {
    DecodeBlock& p = blocks[block_count];
    p.block = block, p.coverage = coverage, p.bits = bits;
    p.scores = g.scores + block_count * kBlockKeys;
    ++block_count;
  }

  // All keys of the chunk, then all of its values. Taking turns in pieces of 16 KB reads memory a tenth slower than
  // reading from end to end, and everything computed in between leaves the first cache (Zen 4).
  void end_chunk(State& state) {
    const std::span<DecodeBlock> added(blocks, static_cast<size_t>(std::exchange(block_count, 0)));
    for (const DecodeBlock& p : added) score_block(g, p.block, p.scores);
    for (DecodeBlock& p : added) {
      modify_scores(g, p);
      to_weights(g, p, state);
    }
    for (const DecodeBlock& p : added) {
      if (g.group.dropout_threshold > 0) {
        add_weights(g, p, state);
        drop_weights(g, p);
      }
      add_values(g, p, state);
    }
  }

  void write(const TileOutputs& outputs) const {
    const AttentionGroup& group = g.group;
    HWY_ALIGN float factors[kTileQueries];
    finish(tile, outputs, total, factors);
    for (int64_t r = 0; r < tile.rows; ++r) {
      float* const out = outputs.output.at(tile.head[r], tile.query[r]);
      if (total.empty) {  // no key at all: 0, unless a NaN sink makes the row NaN
        std::fill_n(out, group.value_size, factors[r] == factors[r] ? 0.0f : factors[r]);
        continue;
      }
      for (int64_t d = 0; d < g.stride; d += kLanes) {
        HWY_ALIGN float lanes[kLanes];
        hn::Store(canonical(hn::Mul(hn::Load(kF, total.output + r * g.stride + d), all(factors[r]))), kF, lanes);
        std::copy_n(lanes, std::clamp<int64_t>(group.value_size - d, 0, kLanes), out + d);
      }
    }
  }
};

void run_decode(const AttentionGroup& group, const TileOutputs& outputs, float* scratch) {
#if HWY_TARGET != HWY_SCALAR
  if (is_short(group, outputs)) return run_short_decode(group, outputs);
#endif
  Decoding d(group, scratch);
  for_chunks(
      d.tile, d.total, d.chunk,
      [&](const Block& block, Coverage coverage, Bits& bits, State&) HWY_ATTR { d.add(block, coverage, bits); },
      [&](State& next) HWY_ATTR {
        d.end_chunk(next);
        merge_state(d.g, next, d.total);
      });
  if (group.single_chunk) d.end_chunk(d.total);
  d.write(outputs);
}

// A chunk's state as it is kept for the merge: (rows, stride) of output, then for each row the largest score and the
// sum, then whether the state is empty.
void run_decode_chunk(const AttentionGroup& group, int64_t index, float* state, float* scratch) {
  Decoding d(group, scratch);
  for_blocks(d.tile, index * kChunkKeys, (index + 1) * kChunkKeys, d.chunk,
             [&](const Block& block, Coverage coverage, Bits& bits, State&) HWY_ATTR { d.add(block, coverage, bits); });
  d.end_chunk(d.chunk);
  float* const sums = state + kDecodeRows * d.g.stride;
  if (!d.chunk.empty) std::copy_n(d.chunk.output, d.tile.rows * d.g.stride, state);
  std::copy_n(d.chunk.largest, kDecodeRows, sums);
  std::copy_n(d.chunk.sum, kDecodeRows, sums + kDecodeRows);
  sums[2 * kDecodeRows] = d.chunk.empty ? 1.0f : 0.0f;
}

void run_decode_merge(const AttentionGroup& group, const TileOutputs& outputs, float* states, int64_t chunks,
                      float* scratch) {
  Decoding d(group, scratch);
  for (int64_t n = 0; n < chunks; ++n) {
    float* const state = states + n * kernels::decode_state_floats(group);
    const float* const sums = state + kDecodeRows * d.g.stride;
    d.chunk.clear(d.tile.width);
    d.chunk.output = state;
    std::copy_n(sums, kDecodeRows, d.chunk.largest);
    std::copy_n(sums + kDecodeRows, kDecodeRows, d.chunk.sum);
    d.chunk.empty = sums[2 * kDecodeRows] != 0;
    merge_state(d.g, d.chunk, d.total);
  }
  d.write(outputs);
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_decode);
HWY_EXPORT(run_decode_chunk);
HWY_EXPORT(run_decode_merge);

int64_t decode_scratch(const AttentionGroup& group) {
  const int64_t stride = padded(group.value_size);
  return padded(kDecodeRows * group.size) + kDecodeRows * (kChunkKeys + kBlockKeys) + 2 * kDecodeRows * stride +
         kBlockKeys * std::max(stride, padded(group.size));
}

void decode_group(const AttentionGroup& group, const TileOutputs& outputs, float* scratch) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_decode)(group, outputs, scratch);
}

int64_t decode_state_floats(const AttentionGroup& group) {
  return kDecodeRows * padded(group.value_size) + padded(2 * kDecodeRows + 1);
}

void decode_chunk(const AttentionGroup& group, int64_t chunk, float* state, float* scratch) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_decode_chunk)(group, chunk, state, scratch);
}

void decode_merge(const AttentionGroup& group, const TileOutputs& outputs, float* states, int64_t chunks,
                  float* scratch) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_decode_merge)(group, outputs, states, chunks, scratch);
}

}  // namespace heed::kernels
#endif
