// Compares random attention problems with the oracle, and with the same problems computed in another way.
//
//   soak [--cases N] [--seconds T] [--seed S]        make soak: 100,000 cases
//
// Each case: a random shape, strides, rules, type, instruction set and number of threads; operands in memory that ends
// (or begins) where reading is fatal; NaN in all that is beyond a sequence's length. Forward and backward are held to
// the oracle in double precision; another instruction set and number of threads, and a cache of the same keys and
// values, must give the same bits (in bf16: where the same unit multiplies). Prints the first case that fails, by its
// seed, and exits 1.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "attention/attention_case.h"
#include "attention/guarded.h"
#include "heed/kv_cache.h"
#include "kernels/attention/engine.h"

namespace heed {
namespace {

using testing::close;
using testing::Guarded;
using testing::Random;
using testing::RandomCase;
using testing::same_bits;
using testing::to_doubles;

class Case {
 public:
  explicit Case(uint64_t seed)
      : random_(seed ^ 0x5DEECE66Du), case_(testing::random_case(seed, random_.pick<int64_t>({20, 70, 70, 160}))) {}

  // Empty if all is well.
  std::string run() {
    prepare();
    const std::vector<Isa> isas = available_isas();
    const auto settle = [&](bool other) {
      set_isa(other || random_.chance(0.2)
                  ? isas[static_cast<size_t>(random_.integer(0, static_cast<int64_t>(isas.size()) - 1))]
                  : isas.back());
      set_num_threads(static_cast<int>(random_.chance(0.1) ? random_.integer(8, 64) : random_.integer(1, 5)));
      where_ = " on " + std::string(to_string(active_isa())) + " with " + std::to_string(num_threads()) + " threads";
    };
    settle(false);
    testing::Problem& p = case_.problem;
    const int64_t queries = p.q.size(2), keys = p.k.size(2);
    if (queries > 0 && keys > 0 && random_.chance(0.5)) {
      p.options.want.taps = {.entropy = true,
                             .top_k = random_.integer(0, std::min<int64_t>(keys, 20)),
                             .column_sums = true,
                             .map = {random_.integer(1, queries), random_.integer(1, keys), random_.chance(0.5)}};
    }
    const AttentionWantGradients want{.bias = p.options.bias.defined(),
                                      .alibi_slopes = p.options.alibi_slopes.defined()};
    const AttentionResult r = attention(p.q, p.k, p.v, p.options);
    const AttentionGradients g = attention_backward(p.d_out, p.q, p.k, p.v, r, p.options, want);
    against_oracle(r, g);
    const kernels::Engine* const engine = kernels::bf16_engine();
    settle(true);
    if (dtype_ == DType::bf16 && kernels::bf16_engine() != engine) {  // another engine, other bits
      with_cache();
      return said();
    }
    const AttentionResult s = attention(p.q, p.k, p.v, p.options);
    same(s.output, r.output, "output");
    same(s.logsumexp, r.logsumexp, "logsumexp");
    same(s.weights, r.weights, "weights");
    same(s.taps.entropy, r.taps.entropy, "entropy");
    same(s.taps.top_keys, r.taps.top_keys, "top keys");
    same(s.taps.top_weights, r.taps.top_weights, "top weights");
    same(s.taps.column_sums, r.taps.column_sums, "column sums");
    same(s.taps.map, r.taps.map, "map");
    const AttentionGradients h = attention_backward(p.d_out, p.q, p.k, p.v, s, p.options, want);
    same(h.query, g.query, "d_query");
    same(h.key, g.key, "d_key");
    same(h.value, g.value, "d_value");
    same(h.bias, g.bias, "d_bias");
    same(h.sinks, g.sinks, "d_sinks");
    same(h.alibi_slopes, g.alibi_slopes, "d_slopes");
    with_cache();
    return said();
  }

 private:
  [[nodiscard]] std::string said() const {
    return wrong_.empty() ? "" : case_.text + dtype_text_ + where_ + ": " + wrong_;
  }

  // Types, guarded memory, NaN beyond the lengths.
  void prepare() {
    testing::Problem& p = case_.problem;
    dtype_ = random_.pick({DType::f32, DType::f32, DType::bf16, DType::f16});
    dtype_text_ = " in " + std::string(to_string(dtype_));
    std::vector<Tensor*> tensors{&p.q, &p.k, &p.v, &p.d_out};
    for (Tensor* t : tensors) *t = t->to(dtype_);
    case_.oracle.q = to_doubles(p.q), case_.oracle.k = to_doubles(p.k), case_.oracle.v = to_doubles(p.v);
    case_.oracle.d_out = to_doubles(p.d_out);
    if (p.options.key_lengths.defined()) {
      for (Tensor* t : {&p.k, &p.v}) {
        *t = t->clone();
        for (int64_t b = 0; b < t->size(0); ++b) {
          const int64_t length = p.options.key_lengths.data<int32_t>()[b];
          const Tensor beyond = t->slice(0, b, b + 1).slice(2, length, t->size(2));
          beyond.copy_from(Tensor::full({}, std::nanf("")).expand(beyond.shape()));
        }
      }
    }
    if (random_.chance(0.5)) {
      if (p.options.mask.defined()) tensors.push_back(&p.options.mask);
      if (p.options.bias.defined()) tensors.push_back(&p.options.bias);
      for (Tensor* t : tensors) {
        guarded_.push_back(std::make_unique<Guarded>(*t, random_.chance(0.7)));
        *t = guarded_.back()->tensor;
      }
    }
  }

  void against_oracle(const AttentionResult& r, const AttentionGradients& g) {
    const oracle::AttentionAnswer a = oracle::attention(case_.oracle);
    const testing::Problem& p = case_.problem;
    // Half precision: the output is rounded once, and so is what backward starts from; and the weights too where pairs
    // of bf16 are multiplied.
    const double unit = dtype_ == DType::f32 ? 0 : dtype_ == DType::bf16 ? 0x1p-8 : 0x1p-11;
    check(close(to_doubles(r.output), a.out, 8e-6 + 1.5 * unit, "output"));
    check(close(to_doubles(r.logsumexp), a.lse, 4e-6, "logsumexp"));
    check(close(to_doubles(r.weights), a.weights, 8e-6, "weights"));
    if (r.taps.column_sums.defined()) {
      const auto keys = static_cast<size_t>(p.k.size(2));
      std::vector<double> sums(static_cast<size_t>(r.taps.column_sums.numel()), 0.0);
      for (size_t n = 0; n < a.weights.size(); ++n) {
        sums[n / keys / static_cast<size_t>(p.q.size(2)) * keys + n % keys] += a.weights[n];
      }
      check(close(to_doubles(r.taps.column_sums), sums, 2e-5, "column sums"));
    }
    const double tolerance = 4e-5 + 24 * unit;  // the sum over Dv of what rounding the output left
    check(close(to_doubles(g.query), a.d_q, tolerance, "d_query"));
    check(close(to_doubles(g.key), a.d_k, tolerance, "d_key"));
    check(close(to_doubles(g.value), a.d_v, tolerance, "d_value"));
    if (p.options.sinks.defined()) check(close(to_doubles(g.sinks), a.d_sink, tolerance, "d_sinks"));
    if (p.options.bias.defined()) {
      const Shape scores{p.q.size(0), p.q.size(1), p.q.size(2), p.k.size(2)};
      const Shape shape = p.options.bias.shape();
      // Each row leaves an error of either sign, which a bias for many rows sums up: the sum itself may be 0.
      const int64_t rows = scores.numel() / std::max<int64_t>(1, scores[3]);
      const int64_t own = shape.rank() == 0 ? 1 : shape.numel() / std::max<int64_t>(1, shape[shape.rank() - 1]);
      const double summed = static_cast<double>(rows) / static_cast<double>(std::max<int64_t>(1, own));
      check(close(to_doubles(g.bias), testing::reduce_bias(a.d_bias, scores, shape),
                  4e-5 + 24 * unit * std::max(1.0, std::sqrt(summed) / 4), "d_bias"));
    }
  }

  // The same keys and values, appended in portions, must give the same bits.
  void with_cache() {
    const testing::Problem& p = case_.problem;
    const int64_t keys = p.k.size(2);
    if (keys == 0 || p.options.query_documents.defined() || random_.chance(0.5)) return;
    KeyValueCache cache(p.k.size(0), p.k.size(1), keys, p.k.size(3), p.v.size(3),
                        {.dtype = dtype_, .page = random_.pick<int64_t>({0, 0, 1, 7, 16, 64})});
    const Tensor& lengths = p.options.key_lengths;
    int64_t longest = 0;
    for (int64_t at = 0; at < keys;) {
      const int64_t next = std::min(keys, at + random_.integer(1, keys));
      std::vector<int32_t> counts;
      for (int64_t b = 0; b < p.k.size(0); ++b) {
        const int64_t length = lengths.defined() ? lengths.data<int32_t>()[b] : keys;
        counts.push_back(static_cast<int32_t>(std::clamp<int64_t>(length - at, 0, next - at)));
        longest = std::max(longest, length);
      }
      cache.append(p.k.slice(2, at, next), p.v.slice(2, at, next),
                   Tensor::from(std::span<const int32_t>(counts), {p.k.size(0)}));
      at = next;
    }
    if (longest < keys) return;  // masks and the like are as wide as the longest sequence
    AttentionOptions options = p.options;
    options.key_lengths = {};
    options.want.taps = {};
    const Tensor q = p.q.to(DType::f32);
    const AttentionResult r = attention(q, cache, options);
    options.key_lengths = lengths;
    const AttentionResult plain = attention(q, p.k.to(DType::f32), p.v.to(DType::f32), options);
    same(r.output, plain.output, "output from a cache");
    same(r.logsumexp, plain.logsumexp, "logsumexp from a cache");
  }

  void check(const ::testing::AssertionResult& result) {
    if (!result && wrong_.empty()) wrong_ = result.message();
  }
  void same(const Tensor& a, const Tensor& b, const char* what) {
    if (!same_bits(a, b) && wrong_.empty()) wrong_ = std::string(what) + " has other bits";
  }

  Random random_;
  RandomCase case_;
  DType dtype_ = DType::f32;
  std::string dtype_text_, where_, wrong_;
  std::vector<std::unique_ptr<Guarded>> guarded_;
};

}  // namespace
}  // namespace heed

int main(int count, char** arguments) {
  uint64_t seed = 1;
  int64_t cases = 100'000;
  double seconds = 1e18;
  for (int n = 1; n < count; n += 2) {
    const std::string name = arguments[n];
    const std::string text = n + 1 < count ? arguments[n + 1] : "";
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool number = !text.empty() && *end == '\0' && value >= 0 && value < 0x1p63;
    if (!number || (name != "--cases" && name != "--seconds" && name != "--seed")) {
      std::fprintf(stderr, "soak: --cases N, --seconds T or --seed S; found %s %s\n", name.c_str(), text.c_str());
      return 2;
    }
    if (name == "--cases") cases = static_cast<int64_t>(value);
    if (name == "--seconds") seconds = value;
    if (name == "--seed") seed = static_cast<uint64_t>(value);
  }
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  int64_t done = 0;
  for (; done < cases && elapsed() < seconds; ++done) {
    // The seed names the case before it runs: a fault of the processor (guard pages) leaves it behind.
    std::fprintf(stderr, "\rseed %llu ", static_cast<unsigned long long>(seed + static_cast<uint64_t>(done)));
    const std::string wrong = heed::Case(seed + static_cast<uint64_t>(done)).run();
    if (wrong.empty()) continue;
    std::fprintf(stderr, "\n");
    std::printf("failed: %s\n", wrong.c_str());
    return 1;
  }
  std::fprintf(stderr, "\n");
  std::printf("%lld cases in %.0f s, none failed\n", static_cast<long long>(done), elapsed());
  return 0;
}
