// Timings of attention's options. Plain attention runs between any two of them: a machine that slows down slows both.
#include "bench/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/timing.h"
#include "heed/attention_variants.h"
#include "heed/cpu.h"
#include "heed/error.h"

namespace heed::bench {
namespace {

struct Case {
  std::string name;
  AttentionOptions options;
  AttentionWantGradients want = {};
  bool backward = true;
  Tensor additive = {};  // weights of additive scores
};

Tensor every_other(const Shape& shape) {
  Tensor mask = Tensor::empty(shape, DType::boolean);
  for (int64_t n = 0; n < mask.numel(); ++n) mask.data<bool>()[n] = n % 3 != 0;
  return mask;
}

std::vector<Case> cases_for(const AttentionShape& s) {
  const Shape square{1, 1, s.queries, s.keys}, all{s.batch, s.heads, s.queries, s.keys};
  AttentionTaps entropy, top, sums, map;
  entropy.entropy = true;
  top.top_k = 8;
  sums.column_sums = true;
  map.map = {std::min<int64_t>(64, s.queries), std::min<int64_t>(64, s.keys), false};
  std::vector<Case> cases = {
      {"causal", {.causal = Causal::bottom_right()}},
      {"window of 256", {.causal = Causal::bottom_right(), .window = {.left = 255}}},
      {"boolean mask (L, S)", {.mask = every_other(square)}},
      {"boolean mask (B, H, L, S)", {.mask = every_other(all)}},
      {"bias (L, S)", {.bias = spread_tensor(square)}},
      {"bias (L, S), its gradient", {.bias = spread_tensor(square)}, {.bias = true}},
      {"bias (B, H, L, S), its gradient", {.bias = spread_tensor(all)}, {.bias = true}},
      {"softcap", {.softcap = 30}},
      {"ALiBi", {.alibi_slopes = spread_tensor({s.heads})}},
      {"ALiBi, slopes' gradient", {.alibi_slopes = spread_tensor({s.heads})}, {.alibi_slopes = true}},
      {"relative positions", {.score = score::RelativePosition{spread_tensor({s.heads, 257}), 128}}},
      {"the same, table's gradient",
       {.score = score::RelativePosition{spread_tensor({s.heads, 257}), 128}},
       {.score_table = true}},
      {"additive scores", {}, {}, true, spread_tensor({s.heads, s.size})},
      {"sinks", {.sinks = spread_tensor({s.heads})}},
      {"dropout", {.dropout = {.rate = 0.1f, .seed = 1}}},
      {"tap: entropy", {.want = {.taps = entropy}}, {}, false},
      {"tap: top 8", {.want = {.taps = top}}, {}, false},
      {"tap: column sums", {.want = {.taps = sums}}, {}, false},
      {"tap: map of 64 x 64", {.want = {.taps = map}}, {}, false},
  };
  for (Case& one : cases) one.options.want.logsumexp = true;
  return cases;
}

struct OptionLine {
  std::string shape, what;
  double forward, backward;  // as times of plain attention; backward 0: not measured
};

OptionLine measure(const AttentionShape& s, const std::string& shape, const Case& one, int repeats) {
  const Tensor q = spread_tensor({s.batch, s.heads, s.queries, s.size}), d = spread_tensor(q.shape());
  const Tensor k = spread_tensor({s.batch, s.kv_heads, s.keys, s.size}), v = spread_tensor(k.shape());
  const AttentionOptions plain{.want = {.logsumexp = true}};
  const auto attend = [&] {
    return one.additive.defined() ? attention_additive(q, k, v, one.additive, one.options)
                                  : attention(q, k, v, one.options);
  };
  const AttentionResult r = attention(q, k, v, plain), with = attend();
  const auto differentiate = [&] {
    return one.additive.defined() ? attention_additive_backward(d, q, k, v, one.additive, with, one.options, one.want)
                                  : attention_backward(d, q, k, v, with, one.options, one.want);
  };
  std::vector<double> forward, backward;
  for (int n = 0; n < repeats; ++n) {
    const double base = seconds_of([&] { (void)attention(q, k, v, plain); });
    forward.push_back(seconds_of([&] { (void)attend(); }) / base);
    if (!one.backward) continue;
    const double base_backward = seconds_of([&] { (void)attention_backward(d, q, k, v, r, plain); });
    backward.push_back(seconds_of([&] { (void)differentiate(); }) / base_backward);
  }
  return {shape, one.name, median(forward), one.backward ? median(backward) : 0};
}

}  // namespace

std::string measure_options(const AttentionBench& options) {
  require(options.repeats >= 1, "bench", "1 repeat or more; found ", options.repeats);
  std::vector<std::string> names = options.shapes;
  if (names.empty()) names = {"1,8,8,1024,1024,64"};
  std::vector<OptionLine> lines;
  for (const std::string& name : names) {
    const AttentionShape shape = parse_attention_shape(name);
    for (const Case& one : cases_for(shape)) lines.push_back(measure(shape, name, one, options.repeats));
  }
  if (options.json) {
    nlohmann::ordered_json document;
    document["processor"] = cpu_info().model;
    document["threads"] = num_threads();
    for (const OptionLine& line : lines) {
      nlohmann::ordered_json entry{{"shape", line.shape}, {"what", line.what}, {"forward", line.forward}};
      if (line.backward > 0) entry["backward"] = line.backward;
      document["lines"].push_back(entry);
    }
    return document.dump(2) + "\n";
  }
  std::string text = fmt::format("{}, {}, threads: {}; times those of plain attention\n", cpu_info().model,
                                 to_string(active_isa()), num_threads());
  text += fmt::format("{:<24} {:<32} {:>8} {:>9}\n", "B,H,Hkv,L,S,D", "", "forward", "backward");
  for (const OptionLine& line : lines) {
    text += fmt::format("{:<24} {:<32} {:>8.2f} {:>9}\n", line.shape, line.what, line.forward,
                        line.backward > 0 ? fmt::format("{:.2f}", line.backward) : "");
  }
  return text;
}

}  // namespace heed::bench
