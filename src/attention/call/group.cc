#include "attention/call/group.h"

namespace heed {

bool is_element(DType dtype) { return dtype == DType::f32 || is_half(dtype) || dtype == DType::i8; }

kernels::Element element_of(DType dtype) {
  if (dtype == DType::bf16) return kernels::Element::bf16;
  if (dtype == DType::f16) return kernels::Element::f16;
  return dtype == DType::i8 ? kernels::Element::i8 : kernels::Element::f32;
}

namespace {

// Rows of key/value head h of sequence b, keys or values of `memory`. A sequence without pages is one page of its own.
kernels::StoredRows stored_rows(const KeyValues& memory, const Tensor& rows, const Tensor& scales, int64_t b,
                                int64_t h) {
  kernels::StoredRows stored;
  const Tensor& pages = memory.pages;
  const bool paged = pages.defined();
  const Shape& strides = rows.strides();
  const int64_t piece = paged ? 0 : piece_of(memory, b), start = piece * strides[0] + h * strides[1];
  stored.data = static_cast<const char*>(rows.raw()) + start * size_of(rows.dtype());
  stored.element = element_of(rows.dtype());
  stored.page = strides[0], stored.row = strides[2], stored.column = strides[3];
  if (scales.defined()) {
    stored.scales = scales.data<float>() + piece * scales.stride(0) + h * scales.stride(1);
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

kernels::StridedRows<uint16_t> bf16_pairs_of(const Tensor& tensor, int64_t b, int64_t h) {
  if (tensor.dtype() != DType::bf16 || tensor.stride(3) != 1) return {};
  const Shape& strides = tensor.strides();
  auto* const data = static_cast<uint16_t*>(tensor.raw()) + b * strides[0] + h * strides[1];
  const bool even = (tensor.size(3) | strides[1] | strides[2]) % 2 == 0;
  if (!even || reinterpret_cast<uintptr_t>(data) % 4 != 0) return {};
  return {data, strides[1], strides[2], 1};
}

kernels::StridedRows<float> words_of(const Tensor& tensor, int64_t b, int64_t h) {
  if (tensor.dtype() == DType::f32) return strided<float>(tensor, b, h);
  const kernels::StridedRows<uint16_t> pairs = bf16_pairs_of(tensor, b, h);
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
    const int64_t piece = piece_of(memory, b);
    group.key = strided<const float>(memory.key, piece, kv_head);
    group.value = strided<const float>(memory.value, piece, kv_head);
  } else {
    group.stored_key = stored_rows(memory, memory.key, memory.key_scales, b, kv_head);
    group.stored_value = stored_rows(memory, memory.value, memory.value_scales, b, kv_head);
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
    return kernels::StridedRows<const float>{tensor.data<float>() + first_head * tensor.stride(0), tensor.stride(0), 0,
                                             0};
  };
  if (options.sinks.defined()) group.sinks = per_head(options.sinks);
  const auto per_sequence = [b](const Tensor& tensor) {
    return kernels::StridedRows<const int32_t>{tensor.data<int32_t>() + b * tensor.stride(0), 0, tensor.stride(1), 0};
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
  group.first_head = static_cast<uint32_t>(problem.first_head + first_head);
  group.single_chunk = !problem.part && problem.keys <= kernels::kChunkKeys;
  if (problem.part) {
    group.first_query = problem.part->first_query;
    group.first_key = problem.part->first_key;
  }
  return group;
}

void set_next(kernels::AttentionGroup& group, const KeyValues& memory, int64_t b, int64_t h) {
  if (memory.pages.defined()) return;  // entries after the end of a sequence's table need not be pages
  group.next_key = stored_rows(memory, memory.key, memory.key_scales, b, h);
  group.next_value = stored_rows(memory, memory.value, memory.value_scales, b, h);
}

}  // namespace heed
