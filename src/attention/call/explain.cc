// Counts what the engines will do. Blocks that masks or documents leave empty are found by looking at these.
#include "attention/call/explain.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "attention/forward/forward.h"
#include "attention/observe/taps.h"
#include "attention/schedule/tiling.h"
#include "kernels/simd/peak.h"

namespace heed {
namespace {

using kernels::kBlockKeys;

// Whether mask and documents leave any pair of these rows (of a group, from head h on) and keys [from, to) attended.
bool any_attended(const AttentionProblem& p, int64_t b, int64_t h, RowRange rows, int64_t from, int64_t to) {
  const Tensor &mask = p.mask, &mine = p.options.query_documents, &theirs = p.options.key_documents;
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

// The least and the largest document of some places of a sequence.
struct Documents {
  int32_t least = INT32_MAX, largest = INT32_MIN;

  void add(const Tensor& documents, int64_t b, int64_t place) {
    const int32_t id = documents.data<int32_t>()[b * documents.stride(0) + place * documents.stride(1)];
    least = std::min(least, id), largest = std::max(largest, id);
  }
  [[nodiscard]] bool may_share(const Documents& other) const {
    return least <= other.largest && other.least <= largest;
  }
};

// Without mask and documents the time is linear in the numbers of queries and keys.
void count_blocks(const AttentionProblem& p, AttentionPlan& plan) {
  const Tiling tiles(p.group(), p.queries);
  const int64_t groups = p.heads / p.group(), blocks = (p.keys + kBlockKeys - 1) / kBlockKeys;
  const Tensor &mine = p.options.query_documents, &theirs = p.options.key_documents;
  const bool looks = p.mask.defined() || mine.defined();
  for (int64_t b = 0; b < p.batch; ++b) {
    std::vector<Documents> of_block(static_cast<size_t>(mine.defined() ? blocks : 0));
    for (int64_t j = 0; mine.defined() && j < p.keys; ++j)
      of_block[static_cast<size_t>(j / kBlockKeys)].add(theirs, b, j);
    for (int64_t t = 0; t < tiles.count(); ++t) {
      const RowRange rows = tiles[t];
      int64_t begin = p.keys, end = 0;
      Documents of_rows;
      for (int64_t r = rows.first; r < rows.first + rows.count; ++r) {
        const KeyRange seen = p.visible(b, r % p.queries);
        if (mine.defined()) of_rows.add(mine, b, r % p.queries);
        if (seen.begin == seen.end) continue;
        begin = std::min(begin, seen.begin);
        end = std::max(end, seen.end);
      }
      const int64_t first = begin / kBlockKeys, last = begin < end ? (end + kBlockKeys - 1) / kBlockKeys : first;
      plan.blocks += groups * blocks;
      plan.skipped += groups * (blocks - (last - first));
      for (int64_t n = first; looks && n < last; ++n) {
        const int64_t from = n * kBlockKeys, to = std::min(from + kBlockKeys, p.keys);
        const bool apart = mine.defined() && !of_rows.may_share(of_block[static_cast<size_t>(n)]);
        for (int64_t h = 0; h < p.heads; h += p.group())
          if (apart || !any_attended(p, b, h, rows, from, to)) ++plan.skipped;
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

std::string shapes_of(const AttentionCall& call, int64_t calls) {
  const AttentionProblem& p = call.problem;
  std::string text = calls > 1 ? std::to_string(calls) + " sequences, H " : "B " + std::to_string(p.batch) + " H ";
  text += std::to_string(p.heads);
  if (p.heads != p.kv_heads) text += "/" + std::to_string(p.kv_heads);
  if (calls == 1) text += " L " + std::to_string(p.queries) + " S " + std::to_string(p.keys);
  text += " D " + std::to_string(p.size);
  if (p.size != p.value_size) text += "/" + std::to_string(p.value_size);
  if (p.additive.defined()) text += ", additive scores";
  const Tensor& key = call.memory.key;
  if (key.dtype() != DType::f32) text += ", keys in " + std::string(to_string(key.dtype()));
  if (call.memory.pages.defined()) text += " in pages";
  return text;
}

// Adds what the call does to the counts.
void count_call(const AttentionCall& call, AttentionPlan& plan) {
  const AttentionProblem& p = call.problem;
  count_blocks(p, plan);
  const auto rows = [&](int64_t heads, int64_t count, int64_t columns, int64_t bytes) {
    return static_cast<double>(p.batch * heads * count * columns * bytes);
  };
  const int64_t width = size_of(call.memory.key.dtype());
  plan.bytes +=
      rows(p.heads, p.queries, p.size + p.value_size, 4) + rows(p.kv_heads, p.keys, p.size + p.value_size, width);
}

std::string text_of(const AttentionPlan& plan, std::string_view function, std::string_view shapes) {
  return std::string(function) + ": " + std::string(shapes) + "; " + std::string(to_string(plan.isa)) + ", " +
         plan.engine + ", " + std::to_string(plan.skipped) + " of " + std::to_string(plan.blocks) + " blocks of " +
         std::to_string(kernels::kTileQueries) + " x " + std::to_string(kBlockKeys) + " skipped, " +
         number(plan.flops, "FLOP") + ", " + number(plan.bytes, "B") + ", " + std::to_string(plan.threads) +
         (plan.threads == 1 ? " thread" : " threads");
}

std::string engine_of(const AttentionCall& call) {
  return std::string(call.engine->name) + (shares_keys(call) ? ", keys shared among threads" : "");
}

AttentionPlan new_plan() {
  AttentionPlan plan;
  plan.isa = active_isa();
  plan.threads = num_threads();
  return plan;
}

}  // namespace

AttentionPlan attention_plan(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionOptions& options) {
  const DType dtype = query.defined() && is_half(query.dtype()) ? query.dtype() : DType::f32;
  const AttentionProblem problem = check_attention("attention_plan", query, key, value, options, dtype);
  check_taps("attention_plan", problem);
  const kernels::Engine& engine = forward_engine(problem, dtype == DType::bf16);
  const AttentionCall call{problem, query, {key, value}, &engine, {}};
  AttentionPlan plan = new_plan();
  count_call(call, plan);
  plan.engine = engine_of(call);
  plan.text = text_of(plan, "attention", shapes_of(call, 1));
  return plan;
}

namespace {

// The peak of one thread, measured when it is first needed.
double peak_of(const kernels::Engine& engine) {
  static std::mutex mutex;
  static std::map<int64_t (*)(int64_t), double> measured;
  const auto run = engine.run_peak == nullptr ? kernels::run_peak : engine.run_peak;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [place, is_new] = measured.try_emplace(run, 0.0);
  if (is_new) place->second = kernels::peak_gflops(5, run) * 1e9;
  return place->second;
}

}  // namespace

Explain::Explain(std::string_view function, double work) : function_(function), work_(work) {
  if (std::getenv("HEED_EXPLAIN") != nullptr) plan_ = new_plan();
}

void Explain::add(const AttentionCall& call) {
  if (!plan_) return;
  count_call(call, *plan_);
  ++calls_;
  if (calls_ == 1) {
    engine_ = call.engine;
    plan_->engine = engine_of(call);
  } else if (call.engine != engine_ && plan_->engine.find(call.engine->name) == std::string::npos) {
    plan_->engine += std::string(" and ") + call.engine->name;
  }
  shapes_ = shapes_of(call, calls_);
  start_ = std::chrono::steady_clock::now();
}

Explain::~Explain() {
  const char* const file_name = std::getenv("HEED_EXPLAIN");
  if (!plan_ || calls_ == 0 || file_name == nullptr) return;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double speed = plan_->flops * work_ / seconds;
  char share[32];
  std::snprintf(share, sizeof share, "%.1f %%", 100 * speed / (peak_of(*engine_) * plan_->threads));
  const std::string line = text_of(*plan_, function_, shapes_) + "; " + duration(seconds) + ", " +
                           number(speed, "FLOP/s") + ", " + share + " of the peak\n";
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  const std::string name = file_name;
  std::FILE* const file = std::fopen(name == "1" ? "/dev/stderr" : name.c_str(), "a");
  if (file == nullptr) return;  // a destructor has nobody to tell
  std::fputs(line.c_str(), file);
  std::fclose(file);
}

}  // namespace heed
