// Timings of attention. Useful operations: 4 B H L S D forward, half as many causal, 2.5 times as many backward.
#include "bench/attention.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

#include "heed/attention.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "kernels/attention/engine.h"
#include "kernels/simd/peak.h"

namespace heed::bench {

AttentionShape parse_attention_shape(const std::string& text) {
  std::array<int64_t, 6> numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (size_t n = 0; n < numbers.size(); ++n) {
    const auto [next, error] = std::from_chars(at, end, numbers[n]);
    const bool last = n + 1 == numbers.size();
    require(error == std::errc() && numbers[n] > 0 && (last ? next == end : next < end && *next == ','), "bench",
            "a shape B,H,Hkv,L,S,D of positive numbers; found \"", text, "\"");
    at = next + 1;
  }
  return {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
}

Tensor spread_tensor(const Shape& shape) {
  Tensor tensor = Tensor::empty(shape);
  uint32_t state = 12345;
  for (int64_t n = 0; n < tensor.numel(); ++n) {
    state = state * 1664525u + 1013904223u;
    tensor.data<float>()[n] = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  return tensor;
}

namespace {

struct Line {
  std::string shape, what, engine;
  int threads = 1;
  double median_ms = 0, best_ms = 0, gflops = 0, peak = 0;  // gflops of the best time; peak of that many threads
};

Line measure(int repeats, double flops, double peak_of_thread, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  work();
  std::vector<double> seconds;
  // Short work is repeated until it fills two milliseconds.
  int inner = 1;
  for (int n = 0; n < repeats; ++n) {
    const auto start = Clock::now();
    for (int m = 0; m < inner; ++m) work();
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    seconds.push_back(elapsed / inner);
    if (n == 0) inner = static_cast<int>(std::clamp(2e-3 / elapsed, 1.0, 1000.0));
  }
  std::sort(seconds.begin(), seconds.end());
  Line line;
  line.threads = num_threads();
  line.median_ms = seconds[seconds.size() / 2] * 1e3;
  line.best_ms = seconds.front() * 1e3;
  line.gflops = flops / seconds.front() * 1e-9;
  line.peak = peak_of_thread * line.threads;
  return line;
}

// Runs `preferred` where it accepts the call, as long as this object lives.
class Preference {
 public:
  explicit Preference(const kernels::Engine* preferred) { kernels::ask_first(preferred); }
  ~Preference() { kernels::ask_first(nullptr); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
};

// The peak that counts: the engine's own; where heed chooses (null), that of bf16 products if the machine has an
// instruction for them and the arrays are bf16, else that of f32.
int64_t (*peak_run(const kernels::Engine* preferred, DType dtype))(int64_t) {
  const kernels::Engine* const engine = preferred != nullptr   ? preferred
                                        : dtype == DType::bf16 ? kernels::bf16_engine()
                                                               : nullptr;
  return engine != nullptr && engine->run_peak != nullptr ? engine->run_peak : kernels::run_peak;
}

// Measures each pass that `preferred` accepts; null: all passes, by the engines that heed chooses.
void measure_shape(const AttentionShape& s, const AttentionBench& o, const kernels::Engine* preferred,
                   std::vector<Line>& lines) {
  const auto request = [&](bool backward) {
    return kernels::EngineRequest{
        .rows = s.heads / s.kv_heads * s.queries, .backward = backward, .bf16 = o.dtype == DType::bf16};
  };
  const auto accepts = [&](bool backward) { return preferred == nullptr || preferred->accepts(request(backward)); };
  // An engine that refuses both may need instructions that this machine lacks, for its peak too.
  if (!accepts(false) && !accepts(true)) return;
  const std::string name = fmt::format("{},{},{},{},{},{}", s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.size);
  const auto random = [&](const Shape& shape) { return spread_tensor(shape).to(o.dtype); };
  const Tensor q = random({s.batch, s.heads, s.queries, s.size}), d_output = random(q.shape());
  const Tensor k = random({s.batch, s.kv_heads, s.keys, s.size}), v = random(k.shape());
  const double all_pairs =
      4.0 * static_cast<double>(s.batch * s.heads * s.size) * static_cast<double>(s.queries * s.keys);
  const Preference preference(preferred);
  const double peak = kernels::peak_gflops(20, peak_run(preferred, o.dtype));
  const auto add = [&](const char* what, bool backward, double flops, const std::function<void()>& work) {
    if (!accepts(backward)) return;
    Line line = measure(o.repeats, flops, peak, work);
    line.shape = name;
    line.what = what;
    line.engine = kernels::choose_engine(request(backward)).name;
    lines.push_back(line);
  };
  for (const bool causal : {false, true}) {
    if (causal && s.queries != s.keys) continue;
    AttentionOptions options{.want = {.logsumexp = true}};
    if (causal) options.causal = Causal::bottom_right();
    const double flops = causal ? all_pairs / 2 : all_pairs;
    const AttentionResult forward = attention(q, k, v, options);
    AttentionResult result;
    add(causal ? "forward causal" : "forward", false, flops, [&] { result = attention(q, k, v, options); });
    AttentionGradients gradients;
    add(causal ? "backward causal" : "backward", true, 2.5 * flops,
        [&] { gradients = attention_backward(d_output, q, k, v, forward, options); });
  }
}

std::string as_table(const std::vector<Line>& lines, DType dtype, double peak) {
  std::string text =
      fmt::format("{}, {}, {}: {:.1f} GFLOP/s peak a thread ({})\n", cpu_info().model, to_string(active_isa()),
                  to_string(dtype), peak, peak_run(nullptr, dtype) == kernels::run_peak ? "f32" : "bf16");
  size_t width = 6;  // of the longest name of an engine
  for (const Line& line : lines) width = std::max(width, line.engine.size());
  text += fmt::format("{:<24} {:<16} {:<{}} {:>7} {:>11} {:>11} {:>9} {:>7}\n", "B,H,Hkv,L,S,D", "", "engine", width,
                      "threads", "median ms", "best ms", "GFLOP/s", "of peak");
  for (const Line& line : lines) {
    text += fmt::format("{:<24} {:<16} {:<{}} {:>7} {:>11.4f} {:>11.4f} {:>9.1f} {:>6.1f}%\n", line.shape, line.what,
                        line.engine, width, line.threads, line.median_ms, line.best_ms, line.gflops,
                        100 * line.gflops / line.peak);
  }
  return text;
}

std::string as_json(const std::vector<Line>& lines, DType dtype, double peak) {
  nlohmann::ordered_json document;
  document["processor"] = cpu_info().model;
  document["isa"] = std::string(to_string(active_isa()));
  document["dtype"] = std::string(to_string(dtype));
  document["peak_gflops_a_thread"] = peak;
  for (const Line& line : lines) {
    document["lines"].push_back({{"shape", line.shape},
                                 {"what", line.what},
                                 {"engine", line.engine},
                                 {"threads", line.threads},
                                 {"median_ms", line.median_ms},
                                 {"best_ms", line.best_ms},
                                 {"gflops", line.gflops},
                                 {"share_of_peak", line.gflops / line.peak}});
  }
  return document.dump(2) + "\n";
}

// The engines to measure with; null stands for heed's choice.
std::vector<const kernels::Engine*> engines_called(const std::string& name) {
  if (name.empty()) return {nullptr};
  std::vector<const kernels::Engine*> chosen;
  for (const kernels::Engine* const engine : kernels::engines())
    if (name == "all" || name == engine->name) chosen.push_back(engine);
  return chosen;
}

}  // namespace

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const kernels::Engine* const engine : kernels::engines()) names.emplace_back(engine->name);
  return names;
}

std::string measure_attention(const AttentionBench& options) {
  require(options.repeats >= 1, "bench", "1 repeat or more; found ", options.repeats);
  std::vector<std::string> names = options.shapes;
  if (names.empty()) {
    names = {"1,16,16,1024,1024,64", "1,4,4,4096,4096,64", "1,8,2,2048,2048,128",
             "100,8,8,32,32,32",     "12,6,6,256,256,64",  "64,8,8,16,16,32"};
  }
  const int before = num_threads();
  std::vector<int> counts{1};
  if (before > 1) counts.push_back(before);
  std::vector<Line> lines;
  for (const std::string& name : names) {
    const AttentionShape shape = parse_attention_shape(name);
    for (const int threads : counts) {
      set_num_threads(threads);
      for (const kernels::Engine* const engine : engines_called(options.engine))
        measure_shape(shape, options, engine, lines);
    }
    set_num_threads(before);
  }
  require(!lines.empty(), "bench", "an engine that computes these shapes in ", to_string(options.dtype), " on ",
          to_string(active_isa()), "; found \"", options.engine, "\"");
  const double peak = kernels::peak_gflops(20, peak_run(nullptr, options.dtype));
  return options.json ? as_json(lines, options.dtype, peak) : as_table(lines, options.dtype, peak);
}

}  // namespace heed::bench
