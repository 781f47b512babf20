#include "kernels/attention/operands.h"

#include <cstring>

namespace heed::kernels {

void bind_f32(AttentionGroup& group, Operands& operands) {
  const bool stored = group.stored_key.data != nullptr;
  const bool dense = group.key.column == 1 && group.key.row == group.size && group.value.column == 1 &&
                     group.value.row == group.value_size;
  if (!stored && (dense || group.heads * group.queries < kTileQueries)) return;
  const int64_t needed = group.keys * (group.size + group.value_size);
  if (operands.dense.size() < needed) operands.dense = Buffer<float>(needed);
  float* to = operands.dense.data();
  const auto copy = [&](StridedRows<const float>& source, StoredRows& rows, int64_t columns) {
    float* const begin = to;
    if (stored) {
      rows_to_f32(rows, columns, 0, group.keys, to, columns);
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

}  // namespace heed::kernels
