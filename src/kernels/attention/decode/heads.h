// Decoding against a few keys, all heads of a sequence at once: the lanes run over heads.
//
// A head of 32 numbers and ten keys has 1,300 FLOPs, so finding out what a group needs takes longer than computing it,
// and lanes that run over ten keys are mostly idle. With keys that lie as (S, D, Hkv), the same column of all heads is
// one vector. Each number is the same chain of operations as in forward_tile(), so the bits are the same. Greedy
// translation (8 heads of 32 numbers, ten keys) spent 15 % of its time in attention with the lanes over keys, and
// spends 6 % here (Zen 4).
#pragma once

#include <cstdint>

namespace heed::kernels {

// Keys that one call takes at most, and rows (queries times query heads of a key/value head).
inline constexpr int64_t kMostHeadsKeys = 64;
inline constexpr int64_t kMostHeadsRows = 8;

// One sequence: its queries attend to all of its keys, with softmax(scale q k) v and nothing else. f32.
struct HeadsDecode {
  int64_t heads = 0;  // of keys and values, H
  int64_t group = 1;  // query heads of each
  int64_t queries = 0, keys = 0;
  int64_t size = 0, value_size = 0;  // D, Dv
  float scale = 1;
  const float* query = nullptr;  // (H * group, queries, D), columns contiguous
  int64_t query_head = 0, query_row = 0;
  const float* key = nullptr;    // (keys, D, H), contiguous
  const float* value = nullptr;  // (keys, H, Dv), contiguous
  float* output = nullptr;       // (H * group, queries, Dv), columns contiguous
  int64_t output_head = 0, output_row = 0;
  const float* next_key = nullptr;  // of the sequence after this one, prefetched; null: none
  const float* next_value = nullptr;
};

// Whether the kernels take heads of this number and sizes.
[[nodiscard]] bool fits_heads_decode(int64_t heads, int64_t size, int64_t value_size);
[[nodiscard]] int64_t heads_decode_scratch(const HeadsDecode& problem);  // floats
void decode_all_heads(const HeadsDecode& problem, float* scratch);

// One key of all heads, (H, D) with rows `head` apart, as (D, H).
void interleave_heads(const float* rows, int64_t head, int64_t heads, int64_t size, float* to);

}  // namespace heed::kernels
