// Timings of decoding. Several key/value caches take turns, so that none of them stays in the processor's caches.
#include "bench/decode.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>

#include "base/threads.h"
#include "bench/timing.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/kv_cache.h"
#include "kernels/simd/peak.h"

namespace heed::bench {
namespace {

constexpr int64_t kColdBytes = int64_t{384} << 20;  // several times the largest of the usual last-level caches
constexpr int kMostCaches = 64;

struct DecodeLine {
  std::string shape, what;
  int threads;
  double median_ms, best_ms, gigabytes,
      bandwidth;  // GB/s of the median time; those of plain reading with as many threads
};

// Bytes a second while memory is read from end to end.
double read_bandwidth(const Tensor& memory, int repeats) {
  std::vector<double> seconds;
  for (int n = 0; n < repeats; ++n) {
    seconds.push_back(seconds_of([&] {
      parallel_for(memory.numel(), 1 << 20, [&](int64_t begin, int64_t end) {
        kernels::read_floats(memory.data<float>() + begin, end - begin);
      });
    }));
  }
  return static_cast<double>(memory.nbytes()) / median(seconds);
}

DecodeLine measure(const AttentionShape& s, DType dtype, const std::string& name, int repeats, double bandwidth) {
  const Tensor q = spread_tensor({s.batch, s.heads, s.queries, s.size});
  const Tensor k = spread_tensor({s.batch, s.kv_heads, s.keys, s.size});
  std::deque<KeyValueCache> caches;
  int64_t bytes = 0;
  do {
    caches.emplace_back(s.batch, s.kv_heads, s.keys, s.size, s.size, KeyValueCache::Options{.dtype = dtype});
    caches.back().append(k, k);
    bytes += caches.back().nbytes();
  } while (bytes < kColdBytes && static_cast<int>(caches.size()) < kMostCaches);
  std::vector<double> seconds;
  const int count = std::max(repeats, static_cast<int>(caches.size()) + 1);
  for (int n = 0; n < count; ++n) {
    const KeyValueCache& cache = caches[static_cast<size_t>(n) % caches.size()];
    seconds.push_back(seconds_of([&] { (void)attention(q, cache, {.causal = Causal::bottom_right()}); }));
  }
  const double middle = median(seconds);
  return {name,
          fmt::format("cache in {}", to_string(dtype)),
          num_threads(),
          middle * 1e3,
          *std::min_element(seconds.begin(), seconds.end()) * 1e3,
          static_cast<double>(caches[0].nbytes()) / middle * 1e-9,
          bandwidth * 1e-9};
}

std::string as_table(const std::vector<DecodeLine>& lines) {
  std::string text = fmt::format("{}, {}; of memory: share of what reading alone reaches in the same run\n",
                                 cpu_info().model, to_string(active_isa()));
  text += fmt::format("{:<24} {:<16} {:>7} {:>11} {:>11} {:>7} {:>10}\n", "B,H,Hkv,L,S,D", "", "threads", "median ms",
                      "best ms", "GB/s", "of memory");
  for (const DecodeLine& line : lines) {
    text +=
        fmt::format("{:<24} {:<16} {:>7} {:>11.4f} {:>11.4f} {:>7.1f} {:>9.1f}%\n", line.shape, line.what, line.threads,
                    line.median_ms, line.best_ms, line.gigabytes, 100 * line.gigabytes / line.bandwidth);
  }
  return text;
}

std::string as_json(const std::vector<DecodeLine>& lines) {
  nlohmann::ordered_json document;
  document["processor"] = cpu_info().model;
  document["isa"] = std::string(to_string(active_isa()));
  for (const DecodeLine& line : lines) {
    document["lines"].push_back({{"shape", line.shape},
                                 {"what", line.what},
                                 {"threads", line.threads},
                                 {"median_ms", line.median_ms},
                                 {"best_ms", line.best_ms},
                                 {"gigabytes_a_second", line.gigabytes},
                                 {"share_of_bandwidth", line.gigabytes / line.bandwidth}});
  }
  return document.dump(2) + "\n";
}

}  // namespace

std::string measure_decode(const AttentionBench& options) {
  require(options.repeats >= 1, "bench", "1 repeat or more; found ", options.repeats);
  std::vector<std::string> names = options.shapes;
  if (names.empty()) names = {"1,32,8,1,4096,128", "8,32,8,1,4096,128", "1,32,8,8,4096,128", "1,12,12,1,1024,64"};
  const int before = num_threads();
  std::vector<int> counts{1};
  if (before > 1) counts.push_back(before);
  const Tensor memory = Tensor::full({kColdBytes / 4}, 0.5f);
  std::vector<DecodeLine> lines;
  for (const std::string& name : names) {
    const AttentionShape shape = parse_attention_shape(name);
    for (const int threads : counts) {
      set_num_threads(threads);
      const double bandwidth = read_bandwidth(memory, 5);
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
        lines.push_back(measure(shape, dtype, name, options.repeats, bandwidth));
      }
    }
    set_num_threads(before);
  }
  return options.json ? as_json(lines) : as_table(lines);
}

}  // namespace heed::bench
