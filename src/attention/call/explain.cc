// Counting what the kernels will do. Blocks that masks and documents empty are found by looking at these.
#include "attention/call/explain.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "attention/schedule/group.h"
#include "attention/observe/taps.h"
#include "kernels/simd/peak.h"

namespace heed {
namespace {

using kernels::kBlockKeys;

// Whether mask or documents let any pair of these rows (of a group, from head h on) and keys through.
bool any_attended(const AttentionProblem& p, int64_t b, int64_t h, RowTiles::Rows rows, int64_t from, int64_t to) {
  const Tensor &mask = p.mask, &mine = p.options.query_documents, &theirs = p.options.key_documents;
  if (!mask.defined() && !mine.defined()) return true;
  for (int64_t r = rows.first; r < rows.first + rows.count; ++r) {
    const int64_t head = h + r / p.queries, i = r % p.queries;
    const KeyRange seen = p.visible(b, i);
    for (int64_t j = std::max(from, seen.begin); j < std::min(to, seen.end); ++j) {
      if (mask.defined() &&
          !mask.data<bool>()[b * mask.stride(0) + head * mask.stride(1) + i * mask.stride(2) + j * mask.stride(3)]) {
        continue;
      }
      if (mine.defined() && mine.data<int32_t>()[b * mine.stride(0) + i * mine.stride(1)] !=
                                theirs.data<int32_t>()[b * theirs.stride(0) + j * theirs.stride(1)]) {
        continue;
      }
      return true;
    }
  }
  return false;
}

void count_blocks(const AttentionProblem& p, AttentionPlan& plan) {
  const RowTiles tiles(p.group(), p.queries);
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads; h += p.group()) {
      for (int64_t t = 0; t < tiles.count(); ++t) {
        const RowTiles::Rows rows = tiles[t];
        int64_t begin = p.keys, end = 0;
        for (int64_t r = rows.first; r < rows.first + rows.count; ++r) {
          const KeyRange seen = p.visible(b, r % p.queries);
          if (seen.begin == seen.end) continue;
          begin = std::min(begin, seen.begin);
          end = std::max(end, seen.end);
        }
        for (int64_t from = 0; from < p.keys; from += kBlockKeys) {
          const int64_t to = std::min(from + kBlockKeys, p.keys);
          ++plan.blocks;
          if (to <= begin || from >= end || !any_attended(p, b, h, rows, from, to)) ++plan.skipped;
        }
      }
    }
    double pairs = 0;
    for (int64_t i = 0; i < p.queries; ++i) {
      const KeyRange seen = p.visible(b, i);
      pairs += static_cast<double>(seen.end - seen.begin);
    }
    plan.flops += 2.0 * static_cast<double>(p.heads * (p.size + p.value_size)) * pairs;
  }
}

std::string number(double value, const char* unit) {
  const char* const prefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t n = 0;
  while (value >= 1000 && n + 1 < std::size(prefixes)) value /= 1000, ++n;
  char text[48];
  std::snprintf(text, sizeof text, "%.3g %s%s", value, prefixes[n], unit);
  return text;
}

std::string duration(double seconds) {
  if (seconds >= 1) return number(seconds, "s");
  return seconds >= 1e-3 ? number(seconds * 1e3, "ms") : number(seconds * 1e6, "us");
}

std::string shapes_of(std::span<const ForwardCall> calls) {
  const AttentionProblem& p = calls[0].problem;
  std::string text =
      calls.size() > 1 ? std::to_string(calls.size()) + " sequences, H " : "B " + std::to_string(p.batch) + " H ";
  text += std::to_string(p.heads);
  if (p.heads != p.kv_heads) text += "/" + std::to_string(p.kv_heads);
  if (calls.size() == 1) text += " L " + std::to_string(p.queries) + " S " + std::to_string(p.keys);
  text += " D " + std::to_string(p.size);
  if (p.size != p.value_size) text += "/" + std::to_string(p.value_size);
  if (p.additive.defined()) text += ", additive scores";
  const Tensor& key = calls[0].memory.key;
  if (key.dtype() != DType::f32) text += ", keys in " + std::string(to_string(key.dtype()));
  if (calls[0].memory.pages.defined()) text += " in pages";
  return text;
}

}  // namespace

AttentionPlan plan_of(std::string_view function, std::span<const ForwardCall> calls) {
  AttentionPlan plan;
  plan.isa = active_isa();
  plan.threads = num_threads();
  plan.text = std::string(function) + ": ";
  if (calls.empty()) return plan;
  for (const ForwardCall& call : calls) {
    const AttentionProblem& p = call.problem;
    count_blocks(p, plan);
    const auto rows = [&](int64_t heads, int64_t count, int64_t columns, int64_t bytes) {
      return static_cast<double>(p.batch * heads * count * columns * bytes);
    };
    const int64_t width = size_of(call.memory.key.dtype());
    plan.bytes +=
        rows(p.heads, p.queries, p.size + p.value_size, 4) + rows(p.kv_heads, p.keys, p.size + p.value_size, width);
  }
  plan.kernel = shares_keys(calls)   ? "few rows, keys shared among threads"
                : few_rows(calls[0]) ? "few rows"
                                     : "tiles of " + std::to_string(kernels::kTileRows) + " queries";
  if (pairs_for(calls[0]) != nullptr) plan.kernel += " in pairs of bf16";
  plan.text += shapes_of(calls) + "; " + std::string(to_string(plan.isa)) + ", " + plan.kernel + " by " +
               std::to_string(kBlockKeys) + " keys, " + std::to_string(plan.skipped) + " of " +
               std::to_string(plan.blocks) + " blocks skipped, " + number(plan.flops, "FLOP") + ", " +
               number(plan.bytes, "B") + ", " + std::to_string(plan.threads) +
               (plan.threads == 1 ? " thread" : " threads");
  return plan;
}

AttentionPlan attention_plan(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionOptions& options) {
  const DType dtype = query.defined() && is_half(query.dtype()) ? query.dtype() : DType::f32;
  ForwardCall call{check_attention("attention_plan", query, key, value, options, dtype),
                   query,
                   {key, value},
                   {},
                   dtype == DType::bf16};
  check_taps("attention_plan", call.problem);
  if (options.want.weights) call.result.weights = Tensor::empty({0});
  return plan_of("attention", {&call, 1});
}

namespace {

// Measured when it is first needed.
double peak_of_thread(const kernels::AttentionPairs* pairs) {
  const auto measured = [](int64_t (*run)(int64_t)) { return kernels::peak_gflops(5, run) * 1e9; };
  if (pairs == nullptr || pairs->run_peak == nullptr) {
    static const double f32 = measured(kernels::run_peak);
    return f32;
  }
  static const double bf16 = measured(pairs->run_peak);
  return bf16;
}

}  // namespace

ExplainScope::ExplainScope(std::string_view function, std::span<const ForwardCall> calls, double work) : work_(work) {
  if (std::getenv("HEED_EXPLAIN") == nullptr) return;
  plan_ = plan_of(function, calls);
  pairs_ = calls.empty() ? nullptr : pairs_for(calls[0]);
  start_ = std::chrono::steady_clock::now();
}

ExplainScope::~ExplainScope() {
  if (!plan_) return;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double peak = peak_of_thread(pairs_);
  static std::mutex mutex;
  const double speed = plan_->flops * work_ / seconds;
  char share[32];
  std::snprintf(share, sizeof share, "%.1f %%", 100 * speed / (peak * plan_->threads));
  const std::string line =
      plan_->text + "; " + duration(seconds) + ", " + number(speed, "FLOP/s") + ", " + share + " of the peak\n";
  const std::string name = std::getenv("HEED_EXPLAIN");
  const std::lock_guard<std::mutex> lock(mutex);
  std::FILE* const file = name == "1" ? stderr : std::fopen(name.c_str(), "a");
  if (file == nullptr) return;  // a destructor has nobody to tell
  std::fputs(line.c_str(), file);
  if (file != stderr) std::fclose(file);
}

}  // namespace heed
