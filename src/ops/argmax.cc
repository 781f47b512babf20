// The largest element of each row: of a tensor, and of a linear layer whose output nobody needs.
#include <algorithm>
#include <limits>

#include "base/memory.h"
#include "base/threads.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/ops.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/largest.h"
#include "kernels/rows/select.h"
#include "ops/checks.h"

namespace heed::ops {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

void check_excluded(std::span<const uint8_t> excluded, int64_t columns) {
  require(excluded.empty() || std::ssize(excluded) == columns, "argmax", "no exclusions, or one for each of ", columns,
          " columns; found ", excluded.size());
}

int32_t largest_of_row(const float* row, int64_t columns, std::span<const uint8_t> excluded) {
  if (!kernels::all_below_infinity(row, columns)) return kNotFinite;
  kernels::Selected best;
  if (kernels::select_largest(row, columns, excluded.empty() ? nullptr : excluded.data(), 1, &best) == 1)
    return best.place;
  return std::all_of(row, row + columns, [](float x) { return x == kNone; }) ? kNotFinite : kNoLargest;
}

}  // namespace

std::vector<int32_t> argmax(const Tensor& x_tensor, std::span<const uint8_t> excluded) {
  const Tensor x = dense(x_tensor, "argmax", "x");
  const auto [rows, columns] = rows_of(x, "argmax", "x");
  check_excluded(excluded, columns);
  std::vector<int32_t> result(static_cast<size_t>(rows));
  parallel_for(rows, 1 + 65536 / std::max<int64_t>(1, columns), [&, width = columns](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      result[static_cast<size_t>(r)] = largest_of_row(x.data<float>() + r * width, width, excluded);
  });
  return result;
}

struct LinearArgmax::Contents {
  kernels::PackedInt8 int8;
  kernels::Int8Loss loss;
};

LinearArgmax::LinearArgmax(std::shared_ptr<const PackedWeight> weight, const Tensor& bias)
    : weight_(std::move(weight)) {
  require(weight_ != nullptr && weight_->format() == WeightFormat::f32 &&
              weight_->shape()[1] <= kernels::PackedInt8::kMostK,
          "LinearArgmax", "a packed weight in f32 with at most ", kernels::PackedInt8::kMostK,
          " inputs; found another");
  const int64_t out = weight_->shape()[0], in = weight_->shape()[1];
  if (bias.defined()) {
    bias_ = dense(bias, "LinearArgmax", "bias");
    require_shape(bias_, {out}, "LinearArgmax", "bias");
  }
  const kernels::WeightRow row = [this](int64_t j, float* to) { weight_->row(j, to); };
  kernels::PackedInt8 int8(row, in, out);
  kernels::Int8Loss loss(int8, row, bias_.defined() ? bias_.data<float>() : nullptr);
  contents_ = std::make_unique<Contents>(Contents{std::move(int8), std::move(loss)});
}

LinearArgmax::~LinearArgmax() = default;

bool LinearArgmax::pays(const PackedWeight& weight) {
  return weight.format() == WeightFormat::f32 && weight.shape()[1] <= kernels::PackedInt8::kMostK &&
         kernels::multiplies_int8();
}

namespace {

// Rows that are looked at together: their products in int8 stay in the second-level cache.
constexpr int64_t kRowsTogether = 64;
constexpr int64_t kMostColumns = 48;  // of a row that are computed one by one; with more, all of its columns are

// The columns that some row of a block may have as its largest, each once.
struct ChosenColumns {
  std::vector<int32_t> columns;
  std::vector<int32_t> place;  // of a column in `columns`; -1

  explicit ChosenColumns(int64_t all) : place(static_cast<size_t>(all), -1) {}
  void add(int32_t column) {
    int32_t& at = place[static_cast<size_t>(column)];
    if (at >= 0) return;
    at = static_cast<int32_t>(columns.size());
    columns.push_back(column);
  }
  void clear() {
    for (const int32_t column : columns) place[static_cast<size_t>(column)] = -1;
    columns.clear();
  }
};

}  // namespace

std::vector<int32_t> LinearArgmax::operator()(const Tensor& x_tensor, std::span<const uint8_t> excluded) const {
  const Tensor x = dense(x_tensor, "LinearArgmax", "x");
  const int64_t out = weight_->shape()[0], in = weight_->shape()[1];
  require(x.rank() == 2 && x.size(1) == in, "LinearArgmax", "x of shape (N, ", in, "); found ", x.shape());
  check_excluded(excluded, out);
  std::vector<int64_t> left_out;
  for (int64_t j = 0; j < std::ssize(excluded); ++j)
    if (excluded[static_cast<size_t>(j)] != 0) left_out.push_back(j);

  const float* const bias = bias_.defined() ? bias_.data<float>() : nullptr;
  const int64_t rows = x.size(0), most_rows = std::min(rows, kRowsTogether);
  std::vector<int32_t> result(static_cast<size_t>(rows));
  const Buffer<float> approximate(most_rows * out);
  std::vector<int32_t> candidates(static_cast<size_t>(most_rows * kMostColumns));
  std::vector<int64_t> counts(static_cast<size_t>(most_rows)), unknown;  // unknown: rows whose columns are all computed
  ChosenColumns chosen(out);
  for (int64_t first = 0; first < rows; first += kRowsTogether) {
    const int64_t count = std::min(kRowsTogether, rows - first);
    const float* const block = x.data<float>() + first * in;
    kernels::Gemm product{.m = count, .n = out, .k = in, .a = block, .a_row = in};
    product.int8 = &contents_->int8;
    product.bias = bias;
    product.c = approximate.data(), product.c_row = out;
    kernels::gemm(product);
    parallel_for(count, 8, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float* const row = approximate.data() + r * out;
        for (const int64_t j : left_out) row[j] = kNone;
        counts[static_cast<size_t>(r)] = kernels::largest_columns(contents_->int8, contents_->loss, block + r * in, row,
                                                                  kMostColumns, candidates.data() + r * kMostColumns);
      }
    });
    chosen.clear();
    for (int64_t r = 0; r < count; ++r) {
      const int64_t found = counts[static_cast<size_t>(r)];
      if (found == kernels::kUnknownColumns || found > kMostColumns) {
        unknown.push_back(first + r);
        continue;
      }
      for (int64_t c = 0; c < found; ++c) chosen.add(candidates[static_cast<size_t>(r * kMostColumns + c)]);
    }
    const int64_t columns = std::ssize(chosen.columns);
    const Buffer<float> weights(columns * in), biases(columns), exact(count * columns);
    for (int64_t c = 0; c < columns; ++c) {
      const int32_t column = chosen.columns[static_cast<size_t>(c)];
      weight_->row(column, weights.data() + c * in);
      biases[c] = bias != nullptr ? bias[column] : 0.0f;
    }
    kernels::Gemm few{.m = count, .n = columns, .k = in, .a = block, .a_row = in};
    few.b = weights.data(), few.b_row = 1, few.b_column = in;
    few.bias = bias != nullptr ? biases.data() : nullptr;
    few.c = exact.data(), few.c_row = columns;
    kernels::gemm(few);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t found = counts[static_cast<size_t>(r)];
      if (found == kernels::kUnknownColumns || found > kMostColumns) continue;
      int32_t best = kNoLargest;
      float most = kNone;
      for (int64_t c = 0; c < found; ++c) {
        const int32_t column = candidates[static_cast<size_t>(r * kMostColumns + c)];
        const float value = exact[r * columns + chosen.place[static_cast<size_t>(column)]];
        if (value > most) most = value, best = column;
      }
      result[static_cast<size_t>(first + r)] = best;
    }
  }
  if (unknown.empty()) return result;
  const Tensor others = Tensor::empty({std::ssize(unknown), in});
  for (int64_t i = 0; i < std::ssize(unknown); ++i)
    std::copy_n(x.data<float>() + unknown[static_cast<size_t>(i)] * in, in, others.data<float>() + i * in);
  const std::vector<int32_t> of_others = argmax(linear(others, *weight_, bias_, {.save = false}).output, excluded);
  for (size_t i = 0; i < unknown.size(); ++i) result[static_cast<size_t>(unknown[i])] = of_others[i];
  return result;
}

}  // namespace heed::ops
