#!/usr/bin/env python3
"""Plants faults in attention, the matrix product and training by several processes, one at a time, and counts how many
the tests catch.

    tools/plant_faults.py [--only TEXT ...] [--begin N] [--jobs N] [--folder build/faults]
    tools/plant_faults.py --check       only whether each fault still finds its place in the source; run by the tests

Each fault is applied to a copy of the tree, which is built; attention_test and the random cases of soak (other tests
for other folders, see SUITES) run until one fails. A fault that does not compile counts as caught by the compiler and is
listed as such. Prints one line a fault and the score, and exits 1 if fewer than 98 % are caught. Takes one to four
minutes a fault.
"""
import argparse
import pathlib
import resource
import shutil
import signal
import subprocess
import sys

TIMED_OUT = 124
SOURCE = "src/"
# (file below src/, what stands there, what it becomes, what that is)
FAULTS = [
    # Masks and ranges.
    ("kernels/attention/tile/tile-inl.h", "last_key[r] = std::max(first_key[r], std::clamp<int64_t>(query[r] + g.last_shift, 0, g.keys));",
     "last_key[r] = std::max(first_key[r], std::clamp<int64_t>(query[r] + g.last_shift + 1, 0, g.keys));", "causal one key too far"),
    ("kernels/attention/tile/tile-inl.h", "first_key[r] = std::clamp<int64_t>(query[r] + g.first_shift, 0, g.keys);",
     "first_key[r] = std::clamp<int64_t>(query[r] + g.first_shift + 1, 0, g.keys);", "window begins one key late"),
    ("kernels/attention/tile/tile-inl.h", "all_begin = std::max(all_begin, first_key[r]);",
     "all_begin = std::min(all_begin, first_key[r]);", "blocks taken for whole that are not"),
    ("kernels/attention/tile/tile-inl.h", "all_end = std::min(all_end, last_key[r]);",
     "all_end = std::max(all_end, last_key[r]);", "blocks taken for whole at the end"),
    ("kernels/attention/tile/tile-inl.h", "const int64_t from = std::max({block_begin, tile.begin / 8 * 8, begin});",
     "const int64_t from = std::max({block_begin, tile.begin, begin});", "dropout blocks not aligned"),
    ("kernels/attention/tile/tile-inl.h", "return any == 0 ? Coverage::none : every == full ? Coverage::all : Coverage::part;",
     "return any == 0 ? Coverage::none : any == full ? Coverage::all : Coverage::part;", "coverage by any instead of every row"),
    ("kernels/attention/tile/tile-inl.h", "for (; j < count; ++j) bits |= uint64_t{mask[j * stride]} << j;",
     "for (; j < count - 1; ++j) bits |= uint64_t{mask[j * stride]} << j;", "mask's tail dropped"),
    ("kernels/attention/tile/tile-inl.h", "bits |= uint64_t{keys[j * stride] == document} << j;",
     "bits |= uint64_t{keys[j] == document} << j;", "stride of documents forgotten"),
    ("kernels/attention/tile/tile-inl.h", "const bool one_mask = g.mask.head == 0 && g.mask.row == 0;",
     "const bool one_mask = g.mask.row == 0;", "a mask of each head taken for one of all"),
    ("kernels/attention/tile/tile-inl.h", "shared_mask = mask_bits(g.mask.data + block.from * g.mask.column, g.mask.column, block.count);",
     "shared_mask = mask_bits(g.mask.data + block.from, g.mask.column, block.count);", "mask's column stride forgotten"),
    ("kernels/attention/tile/columns-inl.h", "rows[r] = source.at(tile.head[r], tile.query[r]);",
     "rows[r] = source.at(tile.head[0], tile.query[r]);", "a tile over heads reads the first one"),
    ("kernels/attention/tile/columns-inl.h", "std::memcpy(to + r, rows[r] + c * column, sizeof(float));",
     "std::memcpy(to + r, rows[r] + c, sizeof(float));", "column stride of queries forgotten"),
    ("kernels/attention/tile/columns-inl.h", "const int64_t live = std::min(kLanes, tile.rows - lane);",
     "const int64_t live = kLanes;", "rows beyond the tile written"),
    ("kernels/attention/tile/scores-inl.h", "hn::Store(hn::IfThenElse(blocked, b, hn::Add(hn::Load(kF, s), b)), kF, s);",
     "hn::Store(hn::Add(hn::Load(kF, s), b), kF, s);", "-inf bias added to infinity"),
    ("kernels/attention/tile/scores-inl.h", "if (coverage == Coverage::part) apply_bits(tile, block, bits, scores);",
     "if (partial) apply_bits(tile, block, bits, scores);\n  partial = false;", "NaN behind a mask let through"),
    ("kernels/attention/tile/scores-inl.h", "c[3] = a_low;",
     "c[3] = b_low;", "a wrong word in the random numbers"),
    ("kernels/attention/tile/scores-inl.h", "hn::Load(kU, heads + lane), hn::Set(kU, g.sequence)};",
     "hn::Load(kU, heads + lane), hn::Zero(kU)};", "dropout the same in all sequences"),
    ("kernels/attention/tile/scores-inl.h", "heads[r] = g.first_head + static_cast<uint32_t>(tile.head[r]);",
     "heads[r] = g.first_head;", "dropout the same in all heads of a group"),
    ("kernels/attention/tile/scores-inl.h", "key[r] = static_cast<int32_t>(g.first_key + block.from);",
     "key[r] = 0;", "score functions see the wrong key"),
    ("kernels/attention/tile/scores-inl.h", "const bool after = slopes.stage >= 0 && n > slopes.stage;",
     "const bool after = slopes.stage >= 0 && n >= slopes.stage;", "a table's derivative multiplied by its own stage"),
    ("kernels/attention/tile/scores-inl.h", "block.by_score = n == 0 ? slopes.by_score : slopes.spare;",
     "block.by_score = slopes.by_score;", "derivatives of score functions not chained"),
    ("kernels/attention/tile/scores-inl.h", "return sum == 0.0f && hn::AllTrue(kF, hn::Eq(sums, hn::Zero(kF)));",
     "return hn::AllTrue(kF, hn::Eq(sums, hn::Zero(kF)));", "infinities in the last columns not noticed"),
    # The product.
    ("kernels/attention/tile/multiply-inl.h", "if (row < rows) piece.template operator()<1, kVectors>(row, lane);",
     "", "the last row of a product dropped"),
    ("kernels/attention/tile/multiply-inl.h", "return kInto == Into::added ? hn::Add(c, sum) : fma(c, factor, sum);",
     "return kInto == Into::added ? hn::Add(c, sum) : hn::Add(c, sum);", "the old sum not rescaled"),
    ("kernels/attention/tile/multiply-inl.h", "left -= 4, lane += 4 * kLanes;",
     "left -= 4, lane += 3 * kLanes;", "a panel in the wrong place"),
    # Softmax and its states.
    ("kernels/attention/forward/state-inl.h", "hn::Store(fma(hn::Load(kF, next.sum + lane), new_factor, sum), kF, total.sum + lane);",
     "hn::Store(hn::Add(hn::Load(kF, next.sum + lane), sum), kF, total.sum + lane);", "sums of chunks merged unscaled"),
    ("kernels/attention/forward/state-inl.h", "begin < tile.end; begin += kChunkKeys",
     "begin + kChunkKeys < tile.end; begin += kChunkKeys", "the last chunk dropped"),
    ("kernels/attention/forward/state-inl.h", "HWY_INLINE FV origin(FV largest) { return hn::IfThenZeroElse(hn::Eq(largest, all(kMinusInfinity)), largest); }",
     "HWY_INLINE FV origin(FV largest) { return largest; }", "-inf less -inf"),
    ("kernels/attention/forward/state-inl.h", "sum = fma(sum, factor, attention_exp(hn::Sub(sink, origin(above))));",
     "sum = hn::Add(sum, attention_exp(hn::Sub(sink, origin(above))));", "the sink added to an unscaled sum"),
    ("kernels/attention/forward/state-inl.h", "hn::Div(hn::Mul(factor, all(g.dropout_scale)), sum);",
     "hn::Div(factor, sum);", "weights not scaled for dropout"),
    ("kernels/attention/forward/state-inl.h", "hn::Store(canonical_nan(hn::IfThenElse(nothing, all(kMinusInfinity), log)), kF, logsumexp + lane);",
     "hn::Store(canonical_nan(hn::IfThenElse(nothing, all(0.0f), log)), kF, logsumexp + lane);", "an empty row's logsumexp 0"),
    ("kernels/attention/forward/forward-inl.h", "grew = grew || !hn::AllFalse(kF, hn::Gt(largest[v], before[v]));",
     "grew = !hn::AllFalse(kF, hn::Gt(largest[v], before[v]));", "growth of the last vector only"),
    ("kernels/attention/forward/forward-inl.h", "hn::Store(largest[v], kF, largest_of + v * kLanes);",
     "", "the largest score forgotten"),
    ("kernels/attention/forward/forward-inl.h", "std::fill_n(outputs.weights.at(h, i), outputs.all_keys, 0.0f);",
     "std::fill_n(outputs.weights.at(h, i), tile.group.keys, 0.0f);", "weights beyond the length not cleared"),
    ("kernels/attention/forward/forward-inl.h", "const FV scaled = hn::Mul(hn::Load(kF, o), hn::Load(kF, old_factors + lane));",
     "const FV scaled = hn::Load(kF, o);", "outputs of chunks merged unscaled"),
    ("kernels/attention/forward/forward-inl.h", "if (group.dropout_threshold > 0) drop_weights(tile, block, scores);\n        unit.add_values",
     "unit.add_values", "no dropout in the output"),
    # DecodeGroup rows and stored keys.
    ("kernels/attention/decode/scores-inl.h", "for (int64_t j = block.count; j < kBlockKeys; ++j) scores[j] = kMinusInfinity;",
     "for (int64_t j = block.count + 1; j < kBlockKeys; ++j) scores[j] = kMinusInfinity;", "one key too many"),
    ("kernels/attention/decode/values-inl.h", "total[r] = all(state.sum[first_row + r] * factors[r]);",
     "total[r] = all(state.sum[first_row + r]);", "the old sum not rescaled in decoding"),
    ("kernels/attention/decode/values-inl.h", "sum[r] = state.sum[r] * p.factors[r];",
     "sum[r] = state.sum[r];", "the same with dropout, or with NaN among the values"),
    ("kernels/attention/decode/values-inl.h", "for (; r + 2 <= g.tile.rows; r += 2) add_rows<2, kElement>(g, p, values, r, state);",
     "", "pairs of rows left out"),
    ("kernels/attention/decode/values-inl.h", "return kVectors * kLanes;\n}",
     "return kLanes;\n}", "columns after the first ones added twice"),
    ("kernels/attention/decode/decode.cc", "add_weights(g, p, state);\n        drop_weights(g, p);",
     "drop_weights(g, p);\n        add_weights(g, p, state);", "sums of what dropout left"),
    ("kernels/attention/decode/values-inl.h", "if (group.dropout_threshold == 0) add_weights(g, p, state);\n    add_attended",
     "add_attended", "no sums of weights where values are not finite"),
    ("kernels/attention/decode/values-inl.h", "if (group.dropout_threshold == 0) add_weights(g, p, state);\n    state.empty",
     "state.empty", "no sums of weights without columns of values"),
    ("kernels/attention/decode/rows-inl.h", "if (left_ > kLanes && reader_.rows_in_page() > kLanes) {",
     "if (left_ > kLanes) {", "rows taken beyond the end of a page"),
    ("kernels/attention/decode/scores-inl.h", "n == 0 ? bits : hn::ShiftRight<16>(bits)",
     "n == 1 ? bits : hn::ShiftRight<16>(bits)", "halves of a word exchanged"),
    ("kernels/attention/decode/scores-inl.h", "largest > before ? hn::GetLane",
     "largest >= before ? 0.5f * hn::GetLane", "what came before halved"),
    ("kernels/attention/decode/scores-inl.h", "key[j] = static_cast<int32_t>(block.from + j);",
     "key[j] = static_cast<int32_t>(j);", "score functions see the wrong key in decoding"),
    ("kernels/attention/decode/decode.cc", "d.chunk.empty = sums[2 * kDecodeRows] != 0;",
     "d.chunk.empty = false;", "an empty chunk merged"),
    ("kernels/attention/decode/decode.cc", "for_blocks(d.tile, index * kChunkKeys, (index + 1) * kChunkKeys, d.chunk,",
     "for_blocks(d.tile, index * kChunkKeys, (index + 1) * kChunkKeys - 64, d.chunk,", "the last block of a shared chunk dropped"),
    ("kernels/attention/tile/stored-inl.h", "left_ = paged ? rows_->page_rows - at : std::numeric_limits<int64_t>::max();",
     "left_ = paged ? rows_->page_rows - at + 1 : std::numeric_limits<int64_t>::max();", "one row too many in a page"),
    ("kernels/attention/tile/stored-inl.h", "scale_ = rows_->scales + page * rows_->scale_page + at * rows_->scale_row;",
     "scale_ = rows_->scales + at * rows_->scale_row;", "scales of the first page for all"),
    ("kernels/attention/tile/stored-inl.h", "scales[j] = scale_[j * rows_->scale_row];",
     "scales[j] = scale_[0];", "one scale for a vector of rows"),
    ("kernels/attention/tile/stored.cc", "const float multiple = finite && *scale > 0 ? std::nearbyint(from[n] / *scale) : 0.0f;",
     "const float multiple = finite && *scale > 0 ? std::trunc(from[n] / *scale) : 0.0f;", "i8 cut instead of rounded"),
    # Backward.
    ("kernels/attention/backward/backward-inl.h", "hn::Store(hn::IfThenZeroElse(masked, hn::Mul(weight, hn::Sub(d_weight, mean))), kF, d);",
     "hn::Store(hn::IfThenZeroElse(masked, hn::Mul(weight, d_weight)), kF, d);", "the softmax's mean not subtracted"),
    ("kernels/attention/backward/backward-inl.h", "if (kDropout) d_weight = hn::IfThenElseZero(test_bit(kept.word, j + n, lane), hn::Mul(d_weight, dropout_scale));",
     "", "no dropout in the gradient of the weights"),
    ("kernels/attention/backward/backward-inl.h", "canonical(hn::Mul(d, all(g.scale)))",
     "canonical(d)", "the scale left out of d_query"),
    ("kernels/attention/backward/backward-inl.h", "copy_tile_rows(tile, g.query, g.size, scale, w.query_rows);",
     "copy_tile_rows(tile, g.query, g.size, 1.0f, w.query_rows);", "the scale left out of d_key"),
    ("kernels/attention/backward/backward-inl.h", "const FV d_sink = hn::Neg(hn::Mul(weight, hn::Load(kF, w.mean + lane)));",
     "const FV d_sink = hn::Mul(weight, hn::Load(kF, w.mean + lane));", "the sink's gradient with the wrong sign"),
    ("kernels/attention/backward/backward-inl.h", "hn::Store(hn::IfThenZeroElse(hn::Eq(d, hn::Zero(kF)), scaled), kF, w.d_scores + n);",
     "hn::Store(scaled, kF, w.d_scores + n);", "a NaN slope behind a mask brought back"),
    ("kernels/attention/backward/backward-inl.h", "for (; c < stride; ++c) to[c] = 0.0f;",
     "", "padding of rows not cleared"),
    ("kernels/attention/backward/backward.cc", ".depth = tile.rows,\n                            .n = stride,\n                            .prefetch = prefetch};\n      if (partial && !query_finite)",
     ".depth = tile.rows - 1,\n                            .n = stride,\n                            .prefetch = prefetch};\n      if (partial && !query_finite)", "the last query left out of d_key"),
    # Taps.
    ("kernels/attention/taps/taps.cc", "hn::IfThenElse(from_before, before, w)",
     "w", "taps: the top weights not moved down"),
    # Packed batches.
    ("attention/backward/shared_gradients.cc", "for (const BackwardCall& call : calls_) {",
     "for (const BackwardCall& call : calls_.first(1)) {", "packed: the slopes of the first sequence alone"),
    ("kernels/attention/taps/taps.cc", "const float bound = largest[top - 1][r];",
     "const float bound = largest[0][r];", "taps: only the largest weight kept"),
    ("kernels/attention/taps/taps.cc", "std::bit_cast<float>(std::bit_cast<uint32_t>(bound) - 1)",
     "bound", "taps: weights that equal the bound left out"),
    ("kernels/attention/taps/taps.cc", "    fold<4>(lanes);\n",
     "", "taps: a quarter of the rows left out of the column sums"),
    ("kernels/attention/forward/forward-inl.h", "std::copy_n(scores, block.count * tile.width, kept_block(tile, block, outputs));",
     "std::copy_n(scores, (block.count - 1) * tile.width, kept_block(tile, block, outputs));", "the last score of a block not kept"),
    ("attention/observe/taps.cc", "if (order != nullptr) order->wait(head, turn);",
     "", "taps: tiles that do not wait for those before"),
    ("attention/observe/taps.cc", "while (cells_.first_row(cell + 1) <= rows.first % problem_.queries + r) ++cell;",
     "", "taps: all rows of a tile in one row of cells"),
    ("kernels/attention/taps/taps.cc", "log = hn::Add(log, attention_log(scale));",
     "", "taps: entropy without dropout's scale"),
    # Pairs of bf16.
    ("kernels/attention/bf16/tile-inl.h", " + block.from % kBlockKeys",
     "", "pairs: blocks that begin late read from their start"),
    ("kernels/attention/bf16/tile-inl.h", "add_non_finite(tile, block, keys.value, partial, bits, weights, state.output);",
     "", "pairs: infinities in values lost"),
    ("kernels/attention/bf16/tile-inl.h", "round_lines(w.d_scores, block.count, tile.width, scale, lines);",
     "round_lines(w.d_scores, block.count, tile.width, 1.0f, lines);", "pairs: the scale left out of d_key"),
    ("kernels/attention/bf16/pairs-inl.h", "if (i < padded_depth(count)) std::fill_n",
     "if (false) std::fill_n", "pairs: depths not filled up"),
    ("kernels/attention/bf16/tile-inl.h", "tile.group.dropout_threshold == 0 && non_finite[0] == non_finite[1] ? pairs : nullptr",
     "non_finite[0] == non_finite[1] ? pairs : nullptr", "pairs: dropout after the weights were packed"),
    ("kernels/attention/bf16/tile-inl.h", "hn::Mul(high, all(factor))",
     "high", "pairs: odd columns of queries not scaled"),
    ("kernels/attention/bf16/tile-inl.h", "const int64_t made = (block.count + 1) / 2",
     "const int64_t made = block.count / 2", "pairs: the last of an odd number of keys lost"),
    ("kernels/simd/exp-inl.h", "{0.24024099f, 0.6931242f, 1.0f}",
     "{0.24024099f, 0.6931242f, 1.02f}", "pairs: a wrong coefficient"),
    ("kernels/attention/bf16/tile-inl.h", "if (!query_finite) add_non_finite_rows",
     "if (false) add_non_finite_rows", "pairs: infinities in queries lost"),
    ("kernels/attention/bf16/units-inl.h", "Tiles::template dot<3, 5, 7>",
     "Tiles::template dot<3, 5, 6>", "tiles: the wrong operand"),
    ("kernels/attention/bf16/units-inl.h", "if (row + 16 <= p.rows) {\n      Tiles::template store",
     "if (true) {\n      Tiles::template store", "tiles: rows written that are not there"),
    ("kernels/attention/bf16/bind.cc", "own_columns[n % columns * kBlockKeys + n / columns] = 0;",
     "", "pairs: NaN left in what is multiplied"),
    # Additive scores.
    ("kernels/attention/backward/backward.cc", "fma_negated(t, t, all(1.0f))",
     "hn::Sub(all(1.0f), t)", "additive: the slope of tanh wrong"),
    ("kernels/attention/backward/backward.cc", "if (ds == 0) continue;",
     "", "additive: NaN behind a mask brought back"),
    ("kernels/attention/backward/backward.cc", "if (tile.head[r] != head) {",
     "if (head < 0) {", "additive: the first head's weight for all"),
    ("attention/backward/shared_gradients.cc", "const int64_t own_heads = count == entries_ ? 1 : call.problem.heads;",
     "const int64_t own_heads = 1;", "additive: heads' gradients summed"),
    # Drivers.
    ("attention/call/group.cc", "group.single_chunk = !problem.part && problem.keys <= kernels::kChunkKeys;",
     "group.single_chunk = true;", "chunks not kept apart"),
    ("attention/call/group.cc", "first_head : first_head / problem.group();",
     "first_head : first_head % problem.kv_heads;", "the wrong key head for grouped queries"),
    ("attention/call/group.cc", "group.keys = problem.key_length(b);",
     "group.keys = problem.keys;", "lengths ignored"),
    ("attention/call/group.cc", "group.sequence = static_cast<uint32_t>(problem.sequence + b);",
     "group.sequence = static_cast<uint32_t>(b);", "dropout of packed sequences all the same"),
    ("attention/schedule/tiling.cc", "if (index == per_segment_ - 1) return {segment + start - kStripe, left + kStripe};",
     "if (index == per_segment_ - 1) return {segment + start - kStripe, left};", "the last rows left out"),
    ("attention/call/problem.cc", "if (options.window.right >= 0) range.end = at + bounded(options.window.right) + 1;",
     "if (options.window.right >= 0) range.end = at + bounded(options.window.right);", "window ends one key early"),
    ("attention/call/problem.cc", "return options.causal.enabled() ? bounded(options.causal.offset_for(all_queries, length)) : length - all_queries;",
     "return options.causal.enabled() ? bounded(options.causal.offset_for(all_queries, keys)) : length - all_queries;", "bottom right of the padded length"),
    ("attention/call/problem.cc", "return ((j % 2 == 0) ? (word & 0xFFFFu) : (word >> 16)) >= threshold;",
     "return ((j % 2 == 0) ? (word & 0xFFFFu) : (word >> 16)) > threshold;", "dropout's threshold off by one"),
    ("attention/schedule/backward_worker.h", "value_row(kernels::padded(problem.value_size))",
     "value_row(kernels::padded(problem.size))", "d_value's rows by the size of keys"),
    ("attention/backward/backward.cc", "    order_.wait(place(block), n_);\n",
     "", "tiles of several threads that do not wait for each other"),
    ("attention/backward/backward.cc", "if (n_ == 0) each(",
     "if (n_ == 0 && block == 0) each(", "only the first block of shared gradients cleared"),
    ("attention/backward/backward.cc", "return group_ * blocks(problem_) + block;",
     "return block;", "groups that take each other's turns"),
    ("attention/backward/shared_gradients.cc", "row[own_keys_ ? j : 0] += from[j - key_first];",
     "row[own_keys_ ? j : 0] = from[j - key_first];", "the bias's gradient not summed"),
    ("attention/backward/shared_gradients.h", "table[n] += worker.d_scores",
     "table[n] = worker.d_scores", "a bias that heads share: the last one's gradient"),
    ("attention/backward/shared_gradients.h", "order->wait(place, before);",
     "", "a bias that heads share: nobody waits"),
    ("attention/backward/shared_gradients.h", "const int64_t before = turns(b, h), place = own(b, h) * tiles_.count() + tile;",
     "const int64_t before = turns(b, h), place = own(b, h) * tiles_.count();", "a bias that heads share: one place for all tiles"),
    ("attention/backward/shared_gradients.h", "double* const sums = memory + (b * p.heads + h) * entries_;",
     "double* const sums = memory + h * entries_;", "a table's sums of all sequences in one"),
    ("kernels/attention/backward/backward-inl.h", "if (entry[0] != open) close();",
     "", "a table's sums go to the entry that comes after"),
    ("kernels/attention/backward/backward-inl.h", "next = next && hn::AllTrue(kI, hn::Eq(here, hn::Add(first, hn::Iota(kI, static_cast<int32_t>(n)))));",
     "", "entries taken for neighbours that are not"),
    ("kernels/attention/backward/backward-inl.h", "if (rows == kernels::kStripe && same) {",
     "if (same) {", "rows beyond the tile added to a table"),
    ("attention/backward/shared_gradients.cc", "for (int64_t head = n / entries_; head < heads; head += own_heads)",
     "for (int64_t head = n / entries_; head + 1 < heads; head += own_heads)", "a table's last head left out"),
    ("attention/variants/kv_cache.cc", "static_cast<int32_t>(added[static_cast<size_t>(b)]);\n  }\n}",
     "static_cast<int32_t>(rows);\n  }\n}", "a cache counts rows it did not take"),
    ("attention/variants/kv_cache.cc", "const int64_t piece = paged() ? page_of(b, j / page_) : b, at = paged() ? j % page_ : j;",
     "const int64_t piece = paged() ? page_of(b, 0) : b, at = paged() ? j % page_ : j;", "rows written to the wrong page"),
    # Rows in bf16 and f16.
    ("attention/schedule/half_rows.cc", "    f32 += count * columns_;\n",
     "", "the second head of a tile converted over the first"),
    ("attention/schedule/half_rows.cc", "return {memory_.data() - rows.first * columns_, ",
     "return {memory_.data(), ", "a tile's half-precision rows taken for those of the group"),
    ("attention/schedule/half_rows.cc", "f(base_ + (head * head_ + query * row_) *",
     "f(base_ + (head * head_ + rows.first * row_) *", "half-precision rows of a tile begin at the tile's first in every head"),
    ("attention/schedule/backward_worker.cc", "  if (d_query_rows_.convert() && gradients.parts.last) d_query_rows_.write(rows);\n",
     "", "half-precision gradients of the queries not written"),
    ("kernels/attention/bf16/pack.cc", "hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(pair)), d16, to + kBlockKeys);",
     "hn::StoreU(hn::TruncateTo(d16, pair), d16, to + kBlockKeys);", "pairs: odd columns are the even ones"),
    ("kernels/attention/bf16/pack.cc", "(row[c] & 0x7F80) != 0x7F80",
     "true", "pairs: infinities in the last columns overlooked"),
    ("attention/variants/radial.cc", "const float by_square = 2.0f * d[",
     "const float by_square = d[", "half the gradient of a square"),
    # The matrix product.
    ("kernels/gemm/loops-inl.h", "+ Step::kCount * Step::kMultiple - 1)",
     ")", "the last number of an odd k dropped"),
    ("kernels/gemm/loops-inl.h", "s.first && !g.accumulate, count);",
     "s.first, count);", "what C holds not added to"),
    ("kernels/gemm/loops-inl.h", "const bool finish = s.last && (",
     "const bool finish = (", "the bias added at every cut of k"),
    ("kernels/gemm/loops-inl.h", "part.b = g.b + k0 * g.b_row + j0 * g.b_column;",
     "part.b = g.b + k0 * g.b_row;", "the first columns of B for all"),
    ("kernels/gemm/loops-inl.h", "if (g.bias != nullptr) rest.bias += done;",
     "", "the bias of the first columns for the rest"),
    ("kernels/gemm/loops-inl.h", "const int64_t i_end = std::min(g.m, (stop - group * tiles) * Step::kRows);",
     "const int64_t i_end = (stop - group * tiles) * Step::kRows;", "rows beyond C written"),
    ("kernels/gemm/tile-inl.h", "store_first(sum[i][v], to, last);",
     "hn::StoreU(sum[i][v], d, to);", "columns beyond C written"),
    ("kernels/gemm/tile-inl.h", "const int64_t stop = depth * row / kRows;",
     "const int64_t stop = depth / kRows * row;", "steps of k dropped"),
    ("kernels/gemm/pack-inl.h", "to[i / kTileRows * kTileStride + j - i] = from[j];",
     "to[i / kTileRows * kTileStride + j] = from[j];", "a short tile of a transposed A in the wrong place"),
    ("kernels/gemm/pack_bf16-inl.h", "left > 1 ? load_first(low + stride, lanes).raw : zero",
     "load_first(low + stride, lanes).raw", "a row beyond k read"),
    ("kernels/gemm/pack_bf16-inl.h", "  if (k < count) {",
     "  if (k + 1 < count) {", "a lone last number not rounded"),
    ("kernels/gemm/pack_bf16-inl.h", "if (lanes > kTileRows) {",
     "if (lanes == kLanes) {", "half a tile of a transposed A missing"),
    ("kernels/gemm/pack_bf16-inl.h", "g.a_column, lanes, left - 2 * q), square + q * kLanes);",
     "g.a_column, lanes, left), square + q * kLanes);", "tiles filled up with what lies behind k"),
    ("kernels/gemm/tile_amx-inl.h", "if (!whole && !fresh) {",
     "if (!whole && fresh) {", "what C holds forgotten at the edge of tiles"),
    ("kernels/gemm/tile_amx-inl.h", "begin<3>(sums + 16 * sums_row + 16, sums_row, fresh);",
     "begin<3>(sums + 16 * sums_row, sums_row, fresh);", "a tile begun with its neighbour's sums"),
    # Scores, and caches that grow and fork.
    ("kernels/attention/forward/forward-inl.h", "if (want_scores) std::fill_n(outputs.scores.at(h, i), outputs.all_keys, kMinusInfinity);",
     "if (want_scores) std::fill_n(outputs.scores.at(h, i), outputs.all_keys, 0.0f);", "scores of blocks that are skipped are 0"),
    ("attention/observe/taps.cc", "if (wanted_.row_scores) to.scores[next->row - from] = result_.row_scores.data<float>() + place;",
     "if (wanted_.row_scores) to.scores[next->row - from] = result_.row_scores.data<float>();", "scores of chosen rows in the wrong place"),
    ("attention/variants/kv_cache.cc", "for (Tensor* const x : tensors_of(memory_)) copy_piece(*x, shared, *x, own, length(b) % page_);",
     "", "a shared page not copied before it is written"),
    ("attention/variants/kv_cache.cc", "        ++users_[static_cast<size_t>(page)];\n",
     "", "users of a page not counted"),
    ("attention/variants/kv_cache.cc", "if (before > 0) table.slice(1, 0, before).copy_from(memory_.pages);",
     "", "the table of pages forgotten as it grows"),
    # Several processes.
    ("train/shards.h", "const bool alone = top.index % 2 == 0 && top.index + 1 == nodes_at(top.level);",
     "const bool alone = false;", "the last shard of an odd number never goes up"),
    ("train/shards.h", "return left.level == right.level && left.index % 2 == 0 && left.index + 1 == right.index;",
     "return left.level == right.level && left.index + 1 == right.index;", "shards added to a wrong neighbour"),
    ("train/shards.cc", "return {shards * rank / ranks, shards * (rank + 1) / ranks};",
     "return {shards / ranks * rank, shards / ranks * (rank + 1)};", "shards left over where ranks do not divide them"),
    ("train/shards.cc", "      found.columns = std::max(found.columns, j + 1);\n",
     "      found.columns = std::max(found.columns, j);\n", "the last column of a shard cut off"),
    ("train/gradient_exchange.cc", "return a.first_leaf < b.first_leaf;",
     "return (a.track != nullptr) > (b.track != nullptr);", "a rank's own sums always come first"),
    ("train/gradient_exchange.cc", "    right = left;\n",
     "", "the tree within a rank added flat"),
    ("train/gradient_exchange.cc", "  row.zero();\n",
     "", "gradients begin with those of the last update"),
    ("train/gradient_exchange.cc", "while (track.unsent > 0 && track.missing[track.unsent - 1] == 0)",
     "while (track.unsent > 0 && track.missing[track.unsent - 1] <= 1)", "a bucket sent before its gradients are whole"),
    ("train/gradient_exchange.cc", "if (!last_) ops::add_into(left, right);",
     "ops::add_into(left, right);", "the last shard added twice"),
    ("train/sharded_adam.cc", "    total += sum;\n",
     "    total = sum;\n", "the norm of the last parameter alone"),
    ("train/adam_step.h", "parameter.rank() >= 2 ? options.weight_decay",
     "parameter.rank() >= 1 ? options.weight_decay", "gains and biases decay"),
    ("train/sharded_adam.cc", "const Shape& whole = flat_.parameters()[slice.parameter].second.shape();",
     "const Shape& whole = flat_.weights().shape();", "matrices taken for biases by the row that holds them"),
    ("train/sharded_adam.cc", "const int64_t before = flat_.begin_of(slice.parameter);",
     "const int64_t before = slice.begin;", "moments taken from the beginning of a parameter"),
    ("train/sharded_adam.cc", "for (size_t rank = 0; rank < next.size(); ++rank) next[rank] = rank * most_squares_;",
     "for (size_t rank = 0; rank < next.size(); ++rank) next[rank] = rank;", "squares of other ranks taken for a rank's own"),
    ("train/parts.h", "const int64_t first = whole_row ? begin : part.local + begin - part.begin;",
     "const int64_t first = whole_row ? begin : part.local;", "a slice taken from the beginning of a part"),
    ("train/updater.cc", "if (shard.tokens > 0) shards.emplace_back(std::move(shard), stream + static_cast<uint64_t>(s));",
     "if (shard.tokens > 0) shards.emplace_back(std::move(shard), stream + static_cast<uint64_t>(s - grid_.shards_of(ranks_.rank()).begin));",
     "dropout numbered by the shards of a rank"),
    ("train/updater.cc", "result.stop = result.stop || *begin != 0;",
     "result.stop = *begin != 0;", "a wish to stop heard from the last rank alone"),
    ("train/objective.cc", "const OfBatch& one = all[static_cast<size_t>(i % size * most + i / size)];",
     "const OfBatch& one = all[static_cast<size_t>(i)];", "validation summed by ranks"),
    ("train/validation.cc", "for (size_t i = rank; i < system.size(); i += size) {",
     "for (size_t i = 0; i < all[rank].size() && i < system.size() / size; ++i) {", "translations in the order of ranks"),
    ("distributed/agreement.cc", "if (who.size() == 1) return;",
     "if (who.size() <= 2) return;", "two opinions pass"),
    ("train/flat_parameters.cc", "const int64_t cut = begins_[i] + (wanted - begins_[i] + block / 2) / block * block;",
     "const int64_t cut = wanted / 16 * 16;", "cuts inside of blocks"),
    ("autograd/tape.cc", "if (input == nullptr || !input->leaf || --left_[input.get()] > 0) continue;",
     "if (input == nullptr || !input->leaf) continue;", "a gradient reported before it is whole"),
    ("distributed/communicator.cc", "const auto to = static_cast<std::ptrdiff_t>(part) * ((rank_ + i) % size_);",
     "const auto to = static_cast<std::ptrdiff_t>(part) * i;", "gathered parts in each rank's own order"),
    ("distributed/communicator.cc", "start_send(std::span(known).first(bytes), (rank_ - count % size_ + size_) % size_, Channel::control);",
     "start_send(std::span(known).first(part), (rank_ - count % size_ + size_) % size_, Channel::control);", "one part a round handed on"),
    ("distributed/communicator.cc", "if (mine + bit < size_) sends",
     "if (mine + bit < size_ - 1) sends", "the last rank hears no broadcast"),
    ("distributed/communicator.cc", "if (timeout_ > 0 && silent > timeout_) {",
     "if (timeout_ > 0 && silent > 1000 * timeout_) {", "a silent peer waited for"),
    ("distributed/in_process.cc", "return {from, to, channel, expected_[{from, to, channel}]++};",
     "return {from, to, channel, expected_[{from, to, 0}]++};", "messages of channels numbered together"),
    # Sequences shared among ranks.
    ("train/grid.h", "return part * shards_ + shard;",
     "return shard * parts_ + part;", "leaves of a part that lie apart"),
    ("train/grid.cc", "row.push_back(rank / columns_ * columns_ + column);",
     "row.push_back(column);", "all groups of ranks in the first one's place"),
    ("train/tracks.cc", "replica[i].second.set_data(flat.view(flat.weights(), i));",
     "(void)flat.view(flat.weights(), i);", "replicas with weights of their own"),
    ("train/sequence_parts.cc", "      target += run.count;\n",
     "", "all runs of a part in the place of the first one"),
    ("train/gradient_exchange.cc", "      if (tracks_.size() > 1) send_complete_sums(track);\n",
     "", "sums of earlier shards kept back where a rank has several parts"),
    ("autograd/training_scope.cc", "scope->part() == 0 || what == DropoutOf::attention)",
     "what == DropoutOf::attention || scope->part() >= 0)", "one dropout for all parts of a sequence"),
    ("autograd/attention.cc", "const distributed::AttentionLayouts layouts{scope.layout(), scope.layout()};",
     "const distributed::AttentionLayouts layouts;", "parts of a sequence taken for runs of positions"),
    ("models/token_embedding.cc", "for (const distributed::Run& run : runs) all.push_back(positions(run.first, run.count));",
     "for (const distributed::Run& run : runs) all.push_back(positions(0, run.count));", "positions counted from a run's beginning"),
    ("distributed/group.cc", "return all_.start_send(bytes, members_[static_cast<size_t>(to)], Channel(channel));",
     "return all_.start_send(bytes, to, Channel(channel));", "messages of a group to ranks of all"),
    ("distributed/group.cc", "std::optional<PeerError> next_failure() override { return all_.next_failure(); }",
     "std::optional<PeerError> next_failure() override { return std::nullopt; }", "a group that hears of no failure"),
    # Attention across ranks.
    ("attention/across_ranks/forward.cc", "  std::vector<Stop> stops;\n  for (int64_t u = 0; u < call.units(); ++u) {",
     "  std::vector<Stop> stops;\n  for (int64_t u = call.units() - 1; u >= 0; --u) {", "units of keys taken in from the last one on"),
    ("attention/across_ranks/forward.cc", "sums_.data() + n * floats_, first_, last};",
     "sums_.data() + n * floats_, true, last};", "softmax states forgotten between units of keys"),
    ("attention/call/group.cc", "group.first_query = problem.part->first_query;",
     "", "positions of queries counted from the rank's own first one"),
    ("attention/call/group.cc", "group.first_key = problem.part->first_key;",
     "", "positions of keys counted from the unit's first one"),
    ("attention/across_ranks/backward.cc", "tiles_.push_back({head * own.run.count + first, tile.count});",
     "tiles_.insert(tiles_.begin(), {head * own.run.count + first, tile.count});", "the tiles of a run added in reverse"),
    ("attention/schedule/tiling.h", "return n % segments_ * per_segment_ + n / segments_;",
     "return n;", "one head after the other added to keys"),
    ("attention/across_ranks/messages.cc", "ranks_->keep(memory_);",
     "", "memory of messages given to others too early"),
    ("attention/across_ranks/layout.cc", "add_run(result.runs[static_cast<size_t>(runs[at].rank)], {begins[n], begins[n + 1] - begins[n]});",
     "add_run(result.runs[0], {begins[n], begins[n + 1] - begins[n]});", "rank 0 holds all units and tiles"),
]
TRAINING = [["tests/train_test", "--gtest_fail_fast", "--gtest_brief=1",
             "--gtest_filter=Parallel.*:*Adam.*:Agreement.*:SumTrees.*:Rows.*:PartsOfRanks.*:LeafGradients.*:ContextParallel.*:PartsOfSequences.*"]]
# (folder, the tests of what lies in it); the first that fits.
SUITES = [
    ("kernels/gemm/", [["tests/kernels_test", "--gtest_fail_fast", "--gtest_brief=1", "--gtest_filter=*Gemm*"]]),
    ("train/", TRAINING),
    ("autograd/", TRAINING),
    ("models/", TRAINING),
    ("distributed/", [["tests/distributed_test", "--gtest_fail_fast", "--gtest_brief=1"]]),
    ("", [["tests/attention_test", "--gtest_fail_fast", "--gtest_brief=1"], ["tests/soak", "--cases", "400"]]),
]


def suite_of(name):
    return next(tests for folder, tests in SUITES if name.startswith(folder))


def run(command, folder, seconds):
    """`seconds` of the processor, all threads together: a busy machine is no fault. Of the clock, an hour."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 10))

    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=3600, check=False, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return TIMED_OUT, "timed out"
    over = done.returncode == -signal.SIGXCPU
    return TIMED_OUT if over else done.returncode, done.stdout + done.stderr


def first_failure(output):
    for line in output.splitlines():
        if line.startswith("[  FAILED  ]") or line.startswith("failed:"):
            return line.replace("[  FAILED  ] ", "")[:100]
    return "died"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="faults whose file or description holds one of these texts")
    parser.add_argument("--begin", type=int, default=1, help="the first of them to plant, counted from 1")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", default="build/faults")
    parser.add_argument("--check", action="store_true", help="build nothing: check that each fault finds its place")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    for name, old, _, what in FAULTS:
        path = root / SOURCE / name
        count = path.read_text(encoding="utf-8").count(old) if path.is_file() else 0
        if count != 1:
            sys.exit(f"plant_faults: {path} should hold this once for the fault \"{what}\"; found it {count} times:\n{old}")
    if arguments.check:
        print(f"{len(FAULTS)} faults find their places")
        return 0
    folder = pathlib.Path(arguments.folder).resolve()
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True,
                           check=True).stdout.split("\n")
    for name in filter(None, files):
        if (root / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, tree / name)
    build = folder / "build"
    configure = ["cmake", "-S", str(tree), "-B", str(build), "-G", "Ninja", "-DHEED_BUILD_PROGRAM=OFF", "-DHEED_BUILD_EXAMPLES=OFF",
                 "-DHEED_BUILD_TESTS=ON", "-DHEED_WERROR=OFF"]
    faults = [f for f in FAULTS if any(text in f[0] + f[3] for text in arguments.only)]
    needed = {tuple(command) for fault in faults for command in suite_of(fault[0])}
    targets = sorted({command[0].removeprefix("tests/") for command in needed})
    compile_all = ["cmake", "--build", str(build), "-j", str(arguments.jobs), "--target", *targets]
    for command in (configure, compile_all):
        code, output = run(command, folder, 7200)
        if code != 0:
            sys.exit(f"plant_faults: the tree without faults does not build:\n{output[-2000:]}")
    for command in needed:
        code, output = run([str(build / command[0]), *command[1:]], build, 1800)
        if code != 0:
            sys.exit(f"plant_faults: the tree without faults fails its tests:\n{output[-2000:]}")

    caught, missed = 0, []
    for number, (name, old, new, what) in list(enumerate(faults, 1))[arguments.begin - 1:]:
        path = tree / SOURCE / name
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(old, new), encoding="utf-8")
        code, output = run(compile_all, folder, 7200)
        verdict = ""
        if code != 0:
            verdict = "the compiler"
        for command in suite_of(name):
            if verdict:
                break
            code, output = run([str(build / command[0])] + command[1:], build, 600)
            if code != 0:
                verdict = "a timeout" if code == TIMED_OUT else first_failure(output)
        path.write_text(text, encoding="utf-8")
        caught += bool(verdict)
        if not verdict:
            missed.append(f"{name}: {what}")
        print(f"{number:3}/{len(faults)}  {'caught' if verdict else 'MISSED'}  {what:48} {verdict}", flush=True)
    faults = faults[arguments.begin - 1:]
    print(f"{caught} of {len(faults)} faults caught ({100 * caught / max(1, len(faults)):.1f} %)")
    for line in missed:
        print(f"missed: {line}")
    return 0 if caught >= 0.98 * len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
