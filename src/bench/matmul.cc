// Timings of the matrix product. Operations: 2 M N K; memory read once: 4 (M K + K N + M N) bytes.
#include "bench/matmul.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/ops.h"
#include "kernels/attention/engine.h"
#include "kernels/simd/peak.h"

namespace heed::bench {
namespace {

struct Product {
  std::string name;
  int64_t m, n, k;
  ops::MatmulOptions options;
};

Product parse_product(const std::string& text) {
  const auto complain = [&] { fail("bench", "a shape M,N,K or M,N,K,NT of positive numbers; found \"", text, "\""); };
  std::array<int64_t, 3> numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && (at == end || *at++ != ',')) complain();
    const auto [next, error] = std::from_chars(at, end, numbers[i]);
    if (error != std::errc() || numbers[i] <= 0) complain();
    at = next;
  }
  std::string letters = "NT";
  if (at != end) {
    letters.assign(at, end);
    if (letters != ",NN" && letters != ",NT" && letters != ",TN" && letters != ",TT") complain();
    letters.erase(0, 1);
  }
  return {fmt::format("{},{},{},{}", numbers[0], numbers[1], numbers[2], letters),
          numbers[0],
          numbers[1],
          numbers[2],
          {.transpose_a = letters[0] == 'T', .transpose_b = letters[1] == 'T'}};
}

struct ProductLine {
  std::string shape;
  int threads;
  double median_ms, best_ms, gflops, share, gigabytes;  // the last three of the best time
};

ProductLine measure(const Product& p, int repeats, double peak_of_thread) {
  using Clock = std::chrono::steady_clock;
  const Tensor a = Tensor::full(p.options.transpose_a ? Shape{p.k, p.m} : Shape{p.m, p.k}, 0.5f);
  const Tensor b = Tensor::full(p.options.transpose_b ? Shape{p.n, p.k} : Shape{p.k, p.n}, 0.5f);
  const Tensor out = Tensor::empty({p.m, p.n});
  ops::matmul_into(out, a, b, p.options);
  std::vector<double> seconds;
  int inner = 1;  // short work is repeated until it fills two milliseconds
  for (int i = 0; i <= repeats; ++i) {
    const auto start = Clock::now();
    for (int j = 0; j < inner; ++j) ops::matmul_into(out, a, b, p.options);
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    if (i > 0) seconds.push_back(elapsed / inner);
    if (i == 0) inner = static_cast<int>(std::clamp(2e-3 / elapsed, 1.0, 1000.0));
  }
  std::sort(seconds.begin(), seconds.end());
  const double peak = peak_of_thread * num_threads();
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double gflops = 2e-9 * m * n * k / seconds.front();
  return {p.name,
          num_threads(),
          seconds[seconds.size() / 2] * 1e3,
          seconds.front() * 1e3,
          gflops,
          gflops / peak,
          4e-9 * (m * k + k * n + m * n) / seconds.front()};
}

std::string as_table(const std::vector<ProductLine>& lines, ops::Precision precision, double peak) {
  std::string text = fmt::format("{}, {}: {:.1f} GFLOP/s peak a thread ({})\n", cpu_info().model,
                                 to_string(active_isa()), peak, to_string(precision));
  text += fmt::format("{:<20} {:>7} {:>11} {:>11} {:>9} {:>8} {:>7}\n", "M,N,K", "threads", "median ms", "best ms",
                      "GFLOP/s", "of peak", "GB/s");
  for (const ProductLine& line : lines) {
    text += fmt::format("{:<20} {:>7} {:>11.4f} {:>11.4f} {:>9.1f} {:>7.1f}% {:>7.1f}\n", line.shape, line.threads,
                        line.median_ms, line.best_ms, line.gflops, 100 * line.share, line.gigabytes);
  }
  return text;
}

std::string as_json(const std::vector<ProductLine>& lines, ops::Precision precision, double peak) {
  nlohmann::ordered_json document;
  document["processor"] = cpu_info().model;
  document["isa"] = std::string(to_string(active_isa()));
  document["precision"] = std::string(to_string(precision));
  document["peak_gflops_a_thread"] = peak;
  for (const ProductLine& line : lines) {
    document["lines"].push_back({{"shape", line.shape},
                                 {"threads", line.threads},
                                 {"median_ms", line.median_ms},
                                 {"best_ms", line.best_ms},
                                 {"gflops", line.gflops},
                                 {"share_of_peak", line.share},
                                 {"gigabytes_a_second", line.gigabytes}});
  }
  return document.dump(2) + "\n";
}

}  // namespace

ops::Precision usable_precision(const std::string& name) {
  const ops::Precision precision = ops::parse_precision(name);
  require(precision == ops::Precision::f32 || multiplies_bf16(), "bench",
          "an instruction set that multiplies bf16 (avx512bf16, amx); found ", to_string(active_isa()));
  return precision;
}

std::string measure_matmul(const MatmulBench& options) {
  require(options.repeats >= 1, "bench", "1 repeat or more; found ", options.repeats);
  std::vector<std::string> names = options.shapes;
  if (names.empty()) {
    // Projections, feed-forward, logits; gradients of inputs and weights; decoding.
    names = {"1024,128,128",    "1024,256,256",     "1024,1024,256", "1024,256,1024", "3072,1536,384",
             "3072,384,1536",   "1024,8000,256",    "2048,9700,128", "3072,65,384",   "1024,256,1024,NN",
             "256,256,1024,TN", "1536,384,3072,TN", "1,256,256",     "1,1024,256",    "16,8000,256"};
  }
  const ops::Precision precision = usable_precision(options.precision);
  const ops::MatmulPrecisionScope scope(precision);
  const auto run_peak = precision == ops::Precision::bf16 ? kernels::bf16_engine()->run_peak : kernels::run_peak;
  const int before = num_threads();
  std::vector<ProductLine> lines;
  for (const std::string& name : names) {
    const Product product = parse_product(name);
    for (const int threads : {1, before}) {
      if (threads == 1 && before == 1 && !lines.empty() && lines.back().shape == product.name) continue;
      set_num_threads(threads);
      lines.push_back(measure(product, options.repeats, kernels::peak_gflops(20, run_peak)));
    }
    set_num_threads(before);
  }
  const double peak = kernels::peak_gflops(20, run_peak);
  return options.json ? as_json(lines, precision, peak) : as_table(lines, precision, peak);
}

}  // namespace heed::bench
