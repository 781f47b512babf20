// What docs/same-bits.md promises beyond bits_test: batches, repeats under load, golden hashes, far offsets, accuracy.
#include <sys/mman.h>

#include <atomic>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "attention/attention_case.h"
#include "base/sha256.h"

namespace heed {
namespace {

using testing::KeepSettings;
using testing::Problem;
using testing::Random;
using testing::random_case;
using testing::RandomCase;
using testing::same_bits;
using testing::to_doubles;

Tensor i32(const std::vector<int32_t>& values) {
  return Tensor::from(std::span<const int32_t>(values), {static_cast<int64_t>(values.size())});
}

// One sequence at a thousand places of batches of others, which have lengths of their own and NaN beyond them.
TEST(AttentionPromise, ASequenceHasTheSameBitsAmongAnyNeighbours) {
  const KeepSettings keep;
  Random random(41);
  const int64_t L = 33, S = 50, D = 16;
  const Tensor q = random.tensor({1, 4, L, D}), k = random.tensor({1, 2, S, D}), v = random.tensor({1, 2, S, D}),
               d = random.tensor({1, 4, L, D});
  const AttentionOptions options{.causal = Causal::bottom_right(), .want = {.logsumexp = true}};
  const AttentionResult alone = attention(q, k, v, options);
  const AttentionGradients g = attention_backward(d, q, k, v, alone, options);
  for (int trial = 0; trial < 1000; ++trial) {
    const int64_t batch = random.integer(1, 4), keys = random.integer(S, S + 20), at = random.integer(0, batch - 1);
    Tensor qs = random.tensor({batch, 4, L, D}), ks = random.tensor({batch, 2, keys, D}),
           vs = random.tensor({batch, 2, keys, D}), ds = random.tensor({batch, 4, L, D});
    std::vector<int32_t> lengths;
    for (int64_t b = 0; b < batch; ++b) {
      lengths.push_back(static_cast<int32_t>(b == at ? S : random.integer(0, keys)));
      for (const Tensor& t : {ks, vs}) {
        const Tensor beyond = t.slice(0, b, b + 1).slice(2, lengths.back(), keys);
        beyond.copy_from(Tensor::full({}, std::nanf("")).expand(beyond.shape()));
      }
    }
    qs.slice(0, at, at + 1).copy_from(q);
    ds.slice(0, at, at + 1).copy_from(d);
    ks.slice(0, at, at + 1).slice(2, 0, S).copy_from(k);
    vs.slice(0, at, at + 1).slice(2, 0, S).copy_from(v);
    AttentionOptions with_lengths = options;
    with_lengths.key_lengths = i32(lengths);
    set_num_threads(static_cast<int>(random.integer(1, 4)));
    const AttentionResult all = attention(qs, ks, vs, with_lengths);
    ASSERT_TRUE(same_bits(all.output.slice(0, at, at + 1), alone.output)) << trial;
    ASSERT_TRUE(same_bits(all.logsumexp.slice(0, at, at + 1), alone.logsumexp)) << trial;
    const AttentionGradients h = attention_backward(ds, qs, ks, vs, all, with_lengths);
    ASSERT_TRUE(same_bits(h.query.slice(0, at, at + 1), g.query)) << trial;
    ASSERT_TRUE(same_bits(h.key.slice(0, at, at + 1).slice(2, 0, S), g.key)) << trial;
    ASSERT_TRUE(same_bits(h.value.slice(0, at, at + 1).slice(2, 0, S), g.value)) << trial;
  }
}

TEST(AttentionPromise, AThousandRepeatsUnderLoadAreOneResult) {
  const KeepSettings keep;
  const RandomCase c = random_case(77, 90);
  const Problem& p = c.problem;
  std::atomic<bool> done{false};
  std::vector<std::thread> load;
  for (int n = 0; n < 3; ++n) {
    load.emplace_back([&done] {
      volatile double x = 1;
      while (!done) x = x * 1.0000001;
    });
  }
  set_num_threads(1);
  const AttentionResult first = attention(p.q, p.k, p.v, p.options);
  set_num_threads(4);
  int different = 0;
  for (int n = 0; n < 1000; ++n) different += !same_bits(attention(p.q, p.k, p.v, p.options).output, first.output);
  done = true;
  for (std::thread& t : load) t.join();
  EXPECT_EQ(different, 0);
}

TEST(AttentionPromise, ManyMoreThreadsThanCoresChangeNothing) {
  const KeepSettings keep;
  for (const uint64_t seed : {501u, 502u, 503u, 504u}) {
    const RandomCase c = random_case(seed, 700);
    const Problem& p = c.problem;
    set_num_threads(1);
    const AttentionResult one = attention(p.q, p.k, p.v, p.options);
    const AttentionGradients g = attention_backward(p.d_out, p.q, p.k, p.v, one, p.options);
    for (const int threads : {5, 16, 33, 64}) {
      set_num_threads(threads);
      const AttentionResult many = attention(p.q, p.k, p.v, p.options);
      ASSERT_TRUE(same_bits(many.output, one.output)) << c.text << " with " << threads;
      const AttentionGradients h = attention_backward(p.d_out, p.q, p.k, p.v, many, p.options);
      ASSERT_TRUE(same_bits(h.query, g.query) && same_bits(h.key, g.key) && same_bits(h.value, g.value)) << threads;
    }
  }
}

// The comparison sees a change of order: the same keys the other way round give the same numbers, not the same bits.
TEST(AttentionPromise, AnotherOrderGivesOtherBits) {
  Random random(42);
  const Tensor q = random.tensor({1, 1, 20, 16}), k = random.tensor({1, 1, 100, 16}),
               v = random.tensor({1, 1, 100, 16});
  const Tensor turned = attention(q, testing::reversed_rows(k).clone(), testing::reversed_rows(v).clone()).output;
  const Tensor straight = attention(q, k, v).output;
  EXPECT_TRUE(testing::close(to_doubles(turned), to_doubles(straight), 1e-6, "output"));
  EXPECT_FALSE(same_bits(turned, straight));
}

std::string hash_of(const std::vector<Tensor>& tensors) {
  std::string bytes;
  for (const Tensor& t : tensors) {
    if (!t.defined()) continue;
    const Tensor dense = t.clone();
    bytes.append(static_cast<const char*>(dense.raw()), static_cast<size_t>(dense.nbytes()));
  }
  std::string hex;
  for (const uint8_t byte : sha256(bytes)) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex.substr(0, 32);
}

// Outputs and gradients of random problems, by seed: the same on every machine, compiler and instruction set. A line of
// golden.tsv: seed, tab, hash. HEED_UPDATE_GOLDEN=1 writes it anew, which breaks the promise to everyone who has
// results.
TEST(AttentionPromise, GoldenHashes) {
  const KeepSettings keep;
  const std::string name = HEED_SOURCE_DIR "/tests/attention/golden.tsv";
  std::map<uint64_t, std::string> golden;
  std::ifstream file(name);
  for (std::string line; std::getline(file, line);) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) golden[std::stoull(line)] = line.substr(tab + 1);
  }
  std::ostringstream fresh;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const RandomCase c = random_case(9000 + seed, seed % 8 == 0 ? 600 : 100);
    const Problem& p = c.problem;
    for (const Isa isa : available_isas()) {
      if (isa == Isa::portable && seed % 8 == 0 && isa != available_isas().back()) continue;  // slow there
      set_isa(isa);
      const AttentionResult r = attention(p.q, p.k, p.v, p.options);
      const AttentionGradients g =
          attention_backward(p.d_out, p.q, p.k, p.v, r, p.options, {.bias = p.options.bias.defined()});
      const std::string hash = hash_of({r.output, r.logsumexp, r.weights, g.query, g.key, g.value, g.bias, g.sinks});
      if (isa == available_isas().back()) fresh << 9000 + seed << '\t' << hash << '\n';
      if (std::getenv("HEED_UPDATE_GOLDEN") == nullptr) {
        EXPECT_EQ(hash, golden[9000 + seed]) << c.text << " on " << to_string(isa);
      }
    }
  }
  if (std::getenv("HEED_UPDATE_GOLDEN") != nullptr) std::ofstream(name) << fresh.str();
}

// Rows 2^26 elements apart: offsets pass 2^31 and 2^32 elements. The memory is reserved, and only what is used exists.
TEST(AttentionPromise, OffsetsBeyond32Bits) {
  const int64_t keys = 70, queries = 66, size = 8, apart = (int64_t{1} << 26) + 40;
  const auto bytes = static_cast<size_t>(keys * apart) * sizeof(float);
  Random random(43);
  std::vector<void*> mapped;
  const auto spread = [&](const Tensor& t) -> Tensor {
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return {};
    mapped.push_back(memory);
    const Tensor far = Tensor::wrap(memory, t.shape(), {t.size(2) * apart, t.size(2) * apart, apart, 1}, DType::f32);
    far.copy_from(t);
    return far;
  };
  const Tensor q = random.tensor({1, 1, queries, size}), k = random.tensor({1, 1, keys, size}),
               v = random.tensor({1, 1, keys, size}), d = random.tensor({1, 1, queries, size});
  const Tensor bias = random.tensor({1, 1, queries, keys});
  const Tensor far_q = spread(q), far_k = spread(k), far_v = spread(v), far_d = spread(d), far_bias = spread(bias);
  if (mapped.size() < 5) {
    for (void* memory : mapped) munmap(memory, bytes);
    GTEST_SKIP() << "no address space of " << bytes << " bytes to reserve";
  }
  AttentionOptions near{.causal = Causal::bottom_right(), .bias = bias, .want = {.logsumexp = true, .weights = true}};
  AttentionOptions far = near;
  far.bias = far_bias;
  const AttentionResult a = attention(q, k, v, near), b = attention(far_q, far_k, far_v, far);
  EXPECT_TRUE(same_bits(a.output, b.output));
  EXPECT_TRUE(same_bits(a.weights, b.weights));
  const AttentionGradients g = attention_backward(d, q, k, v, a, near, {.bias = true}),
                           h = attention_backward(far_d, far_q, far_k, far_v, b, far, {.bias = true});
  EXPECT_TRUE(same_bits(g.query, h.query));
  EXPECT_TRUE(same_bits(g.key, h.key));
  EXPECT_TRUE(same_bits(g.value, h.value));
  EXPECT_TRUE(same_bits(g.bias, h.bias));
  // The decode engine.
  EXPECT_TRUE(
      same_bits(attention(q.slice(2, 65, 66), k, v).output, attention(far_q.slice(2, 65, 66), far_k, far_v).output));
  for (void* memory : mapped) munmap(memory, bytes);
}

TEST(AttentionPromise, WholeNumbersGiveExactResults) {
  Random random(44);
  const auto whole = [&](const Shape& shape) {
    Tensor t = Tensor::empty(shape);
    for (int64_t n = 0; n < t.numel(); ++n) t.data<float>()[n] = static_cast<float>(random.integer(-1000, 1000));
    return t;
  };
  // All scores equal: the mean of 256 whole numbers is exact in f32.
  const Tensor q = whole({1, 2, 60, 8}), v = whole({1, 2, 256, 8});
  const Tensor mean = attention(q, Tensor::zeros({1, 2, 256, 8}), v).output;
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t d = 0; d < 8; ++d) {
      double sum = 0;
      for (int64_t j = 0; j < 256; ++j) sum += v.at({0, h, j, d});
      for (int64_t i = 0; i < 60; ++i) ASSERT_EQ(mean.at({0, h, i, d}), sum / 256);
    }
  }
  // One score far above the others: exactly its value.
  Tensor one_hot = Tensor::zeros({1, 1, 4, 4}), keys = Tensor::zeros({1, 1, 4, 4});
  for (int64_t i = 0; i < 4; ++i) one_hot.data<float>()[i * 5] = 1000, keys.data<float>()[i * 5] = 1;
  const Tensor values = whole({1, 1, 4, 4});
  EXPECT_TRUE(same_bits(attention(one_hot, keys, values).output, values));
}

// Root mean square errors against the oracle, over many problems with a rule each: fused no larger than the plain
// formula in f32 (FlashAttention's criterion), gradients at most 1.5 times.
TEST(AttentionPromise, IsAsAccurateAsThePlainFormula) {
  struct Rule {
    const char* name;
    std::function<void(Problem&, Random&)> set;
    oracle::AttentionCase::Causal causal = oracle::AttentionCase::Causal::none;
  };
  const std::vector<Rule> rules = {
      {"plain", [](Problem&, Random&) {}},
      {"causal", [](Problem& p, Random&) { p.options.causal = Causal::bottom_right(); },
       oracle::AttentionCase::Causal::bottom_right},
      {"window", [](Problem& p, Random&) { p.options.window = {.left = 40, .right = 10}; }},
      {"mask",
       [](Problem& p, Random& random) {
         p.options.mask = Tensor::empty({p.q.size(2), p.k.size(2)}, DType::boolean);
         for (int64_t n = 0; n < p.options.mask.numel(); ++n) p.options.mask.data<bool>()[n] = random.chance(0.5);
       }},
      {"bias",
       [](Problem& p, Random& random) {
         p.options.bias = random.tensor({p.q.size(2), p.k.size(2)}, 2);
       }},
      {"softcap", [](Problem& p, Random&) { p.options.softcap = 2; }},
      {"alibi", [](Problem& p, Random& random) { p.options.alibi_slopes = random.tensor({p.q.size(1)}, 0.1); }},
      {"sinks", [](Problem& p, Random& random) { p.options.sinks = random.tensor({p.q.size(1)}, 2); }},
      {"dropout", [](Problem& p, Random&) { p.options.dropout = {.rate = 0.2f, .seed = 3}; }},
  };
  for (const Rule& rule : rules) {
    double fused[2] = {}, plain[2] = {};
    for (uint64_t seed = 0; seed < 6; ++seed) {
      Random random(4500 + seed);
      const int64_t L = random.integer(40, 160), S = random.integer(100, 700), D = random.pick<int64_t>({32, 64});
      Problem p;
      p.q = random.tensor({1, 2, L, D}, 2), p.k = random.tensor({1, 2, S, D}, 2), p.v = random.tensor({1, 2, S, D}, 2);
      p.d_out = random.tensor({1, 2, L, D});
      p.options.want.logsumexp = true;
      rule.set(p, random);
      const oracle::AttentionAnswer exact = oracle::attention(testing::oracle_case(p, rule.causal, 0));
      const AttentionResult r = attention(p.q, p.k, p.v, p.options);
      const AttentionGradients g = attention_backward(p.d_out, p.q, p.k, p.v, r, p.options),
                               h = reference::attention_backward(p.d_out, p.q, p.k, p.v, p.options);
      const auto add = [](double& sum, const Tensor& found, const std::vector<double>& expected) {
        const std::vector<double> values = to_doubles(found);
        double squares = 0;
        for (size_t n = 0; n < values.size(); ++n) squares += std::pow(values[n] - expected[n], 2);
        sum += squares / static_cast<double>(values.size());
      };
      add(fused[0], r.output, exact.out);
      add(plain[0], reference::attention(p.q, p.k, p.v, p.options).output, exact.out);
      for (const auto& [mine, theirs, expected] :
           {std::tuple{g.query, h.query, &exact.d_q}, {g.key, h.key, &exact.d_k}, {g.value, h.value, &exact.d_v}}) {
        add(fused[1], mine, *expected);
        add(plain[1], theirs, *expected);
      }
    }
    // The plain formula evaluates score functions in double precision.
    const double most = std::string(rule.name) == "alibi" ? 1.25 : 1;
    EXPECT_LE(std::sqrt(fused[0]), most * std::sqrt(plain[0])) << rule.name;
    EXPECT_LE(std::sqrt(fused[1]), 1.5 * std::sqrt(plain[1])) << rule.name;
    RecordProperty(std::string(rule.name) + "_forward", std::to_string(std::sqrt(fused[0] / plain[0])));
    RecordProperty(std::string(rule.name) + "_backward", std::to_string(std::sqrt(fused[1] / plain[1])));
    if (std::getenv("HEED_SHOW_ERRORS") != nullptr) {
      std::printf("%-10s forward %.2f backward %.2f of the plain formula's error\n", rule.name,
                  std::sqrt(fused[0] / plain[0]), std::sqrt(fused[1] / plain[1]));
    }
  }
}

}  // namespace
}  // namespace heed
