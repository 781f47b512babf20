// Timings of growing problems. Time a pair and bytes a row have columns of their own: they should stay the same.
#include "bench/scaling.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "bench/attention.h"
#include "bench/timing.h"
#include "heed/attention.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/memory.h"

namespace heed::bench {
namespace {

constexpr int64_t kShortest = 128, kSize = 64, kWindow = 256;

// The median of as many runs as fit into a third of a second, of 25 at most.
double time_of(const auto& work) {
  const double first = seconds_of(work);
  if (first > 0.3) return first;
  std::vector<double> seconds;
  while (seconds.size() < 25 && static_cast<double>(seconds.size()) * first < 0.3) seconds.push_back(seconds_of(work));
  return median(seconds);
}

struct ScalingLine {
  std::string grows;  // length, keys, batch, threads
  AttentionShape shape;
  int threads;
  double full, causal, window;  // milliseconds; 0: not measured
  double bytes;                 // of a query and head, taken while it ran, without operands and result

  [[nodiscard]] double pairs() const {
    return static_cast<double>(shape.batch * shape.heads * shape.queries) * static_cast<double>(shape.keys);
  }
  [[nodiscard]] double rows() const { return static_cast<double>(shape.batch * shape.heads * shape.queries); }
};

ScalingLine measure(const std::string& grows, const AttentionShape& s) {
  const Tensor q = spread_tensor({s.batch, s.heads, s.queries, s.size});
  const Tensor k = spread_tensor({s.batch, s.kv_heads, s.keys, s.size}), v = spread_tensor(k.shape());
  const auto time = [&](const AttentionOptions& options) {
    return 1e3 * time_of([&] { (void)attention(q, k, v, options); });
  };
  ScalingLine line{grows, s, num_threads(), 0, 0, 0, 0};
  release_cached_memory();
  reset_peak_memory();
  const int64_t before = memory_stats().bytes_in_use;
  const AttentionResult result = attention(q, k, v, {});
  line.bytes = static_cast<double>(memory_stats().peak_bytes - before - result.output.nbytes()) / line.rows();
  line.full = time({});
  if (grows != "keys") {
    line.causal = time({.causal = Causal::bottom_right()});
    line.window = time({.causal = Causal::bottom_right(), .window = {.left = kWindow - 1}});
  }
  return line;
}

std::vector<ScalingLine> measure_all(int64_t longest) {
  std::vector<ScalingLine> lines;
  const auto add = [&](const char* grows, const AttentionShape& shape) { lines.push_back(measure(grows, shape)); };
  for (int64_t n = kShortest; n <= longest; n *= 2) add("length", {1, 1, 1, n, n, kSize});
  for (int64_t n = kShortest; n <= longest; n *= 2) add("keys", {1, 8, 8, kShortest, n, kSize});
  for (int64_t n = 1; n <= longest / 256; n *= 4) add("batch", {n, 4, 4, 256, 256, kSize});
  const int all = num_threads();
  for (int threads = 1; threads <= all; ++threads) {
    set_num_threads(threads);
    add("threads", {1, 8, 8, std::min<int64_t>(2048, longest), std::min<int64_t>(2048, longest), kSize});
  }
  set_num_threads(all);
  return lines;
}

std::string as_json(const std::vector<ScalingLine>& lines) {
  nlohmann::ordered_json document;
  document["processor"] = cpu_info().model;
  document["isa"] = to_string(active_isa());
  for (const ScalingLine& line : lines) {
    const AttentionShape& s = line.shape;
    nlohmann::ordered_json entry{
        {"grows", line.grows},      {"batch", s.batch}, {"heads", s.heads},        {"queries", s.queries},
        {"keys", s.keys},           {"size", s.size},   {"threads", line.threads}, {"milliseconds", line.full},
        {"bytes_a_row", line.bytes}};
    if (line.causal > 0) entry["causal_milliseconds"] = line.causal, entry["window_milliseconds"] = line.window;
    document["lines"].push_back(entry);
  }
  return document.dump(2) + "\n";
}

std::string as_table(const std::vector<ScalingLine>& lines) {
  std::string text = fmt::format(
      "{}, {}; f32, D = {}, forward; window: causal, {} keys; bytes: taken while it runs, without "
      "operands and result\n",
      cpu_info().model, to_string(active_isa()), kSize, kWindow);
  text += fmt::format("{:<8} {:<22} {:>7} {:>11} {:>8} {:>7} {:>11} {:>8} {:>8}\n", "grows", "B,H,L,S", "threads", "ms",
                      "ns/pair", "causal", "window ms", "ns/row", "B/row");
  for (const ScalingLine& line : lines) {
    const AttentionShape& s = line.shape;
    const std::string shape = fmt::format("{},{},{},{}", s.batch, s.heads, s.queries, s.keys);
    text += fmt::format("{:<8} {:<22} {:>7} {:>11.3f} {:>8.3f}", line.grows, shape, line.threads, line.full,
                        1e6 * line.full / line.pairs());
    text += line.causal > 0 ? fmt::format(" {:>7.2f} {:>11.3f} {:>8.0f}", line.causal / line.full, line.window,
                                          1e6 * line.window / line.rows())
                            : fmt::format(" {:>7} {:>11} {:>8}", "", "", "");
    text += fmt::format(" {:>8.0f}\n", line.bytes);
  }
  return text;
}

}  // namespace

std::string measure_scaling(const ScalingBench& options) {
  require(options.longest >= kShortest, "bench", "a longest length of ", kShortest, " or more; found ",
          options.longest);
  const std::vector<ScalingLine> lines = measure_all(options.longest);
  return options.json ? as_json(lines) : as_table(lines);
}

}  // namespace heed::bench
