// Calls with one thing wrong, by the thousand: each must end in heed::Error, with nothing read or written out of place.
// HEED_BAD_CALLS says how many (2,000).
#include <cstdlib>
#include <functional>
#include <limits>

#include "attention/attention_case.h"
#include "heed/attention_variants.h"
#include "heed/error.h"
#include "heed/kv_cache.h"

namespace heed {
namespace {

using testing::Random;

constexpr float kNan = NAN, kInfinite = INFINITY;

struct Call {
  Tensor q, k, v;
  AttentionOptions o;
  int64_t batch, heads, kv_heads, queries, keys, size;
};

Call valid_call(Random& random) {
  Call c;
  c.batch = random.integer(1, 3), c.kv_heads = random.integer(1, 3), c.heads = c.kv_heads * random.integer(1, 3);
  c.queries = random.integer(1, 60), c.keys = random.integer(1, 140), c.size = random.integer(1, 20);
  c.q = random.tensor({c.batch, c.heads, c.queries, c.size});
  c.k = random.tensor({c.batch, c.kv_heads, c.keys, c.size});
  c.v = random.tensor({c.batch, c.kv_heads, c.keys, random.integer(1, 20)});
  if (random.chance(0.3)) c.o.causal = Causal::bottom_right();
  if (random.chance(0.2)) c.o.softcap = 3;
  if (random.chance(0.2)) c.o.want.weights = true;
  c.o.want.logsumexp = random.chance(0.5);
  return c;
}

Tensor ints(const Shape& shape, int32_t value) {
  const Tensor t = Tensor::empty(shape, DType::i32);
  std::fill_n(t.data<int32_t>(), t.numel(), value);
  return t;
}

using Spoil = std::function<void(Call&, Random&)>;

// One of some numbers that are no extent of the tensor's axis.
Tensor resized(const Tensor& t, int axis, Random& random) {
  Shape shape = t.shape();
  shape[axis] += random.chance(0.5) || shape[axis] == 1 ? random.integer(1, 3) : -1;
  return Tensor::zeros(shape, t.dtype());
}

std::vector<Spoil> spoils() {
  const auto bad_float = [](Random& r) { return r.chance(0.5) ? kNan : kInfinite; };
  return {
      [](Call& c, Random&) { c.q = {}; },
      [](Call& c, Random&) { c.k = {}; },
      [](Call& c, Random&) { c.v = {}; },
      [](Call& c, Random&) { c.q = c.q.to(DType::f64); },
      [](Call& c, Random&) { c.k = c.k.to(DType::bf16); },
      [](Call& c, Random&) { c.v = Tensor::zeros(c.v.shape(), DType::i32); },
      [](Call& c, Random&) { c.q = c.q.select(0, 0); },
      [](Call& c, Random&) {
        c.k = c.k.expand({1, c.batch, c.kv_heads, c.keys, c.size});
      },
      [](Call& c, Random& r) { c.q = resized(c.q, 0, r); },
      [](Call& c, Random& r) { c.q = resized(c.q, 3, r); },
      [](Call& c, Random& r) { c.v = resized(c.v, static_cast<int>(r.integer(0, 2)), r); },
      [](Call& c, Random&) {  // H no multiple of Hkv
        c.k = Tensor::zeros({c.batch, c.heads + 1, c.keys, c.size});
        c.v = Tensor::zeros({c.batch, c.heads + 1, c.keys, 3});
      },
      [](Call& c, Random& r) {
        c.o.mask = Tensor::zeros({c.queries + r.integer(1, 3), c.keys + 1}, DType::boolean);
      },
      [](Call& c, Random&) {
        c.o.mask = Tensor::zeros({c.queries, c.keys});
      },
      [](Call& c, Random&) {
        c.o.mask = Tensor::zeros({1, 1, 1, 1, 1}, DType::boolean);
      },
      [](Call& c, Random&) { c.o.bias = Tensor::zeros({c.keys + 1}); },
      [](Call& c, Random&) {
        c.o.bias = Tensor::zeros({c.queries, c.keys}, DType::boolean);
      },
      [](Call& c, Random&) { c.o.key_lengths = ints({c.batch + 1}, 1); },
      [](Call& c, Random& r) { c.o.key_lengths = ints({c.batch}, r.chance(0.5) ? -1 : static_cast<int>(c.keys) + 1); },
      [](Call& c, Random&) { c.o.key_lengths = Tensor::zeros({c.batch}, DType::i64); },
      [](Call& c, Random&) { c.o.key_lengths = ints({c.batch}, INT32_MIN); },
      [](Call& c, Random& r) { c.o.alibi_slopes = Tensor::zeros({c.heads + r.integer(1, 2)}); },
      [](Call& c, Random&) { c.o.alibi_slopes = ints({c.heads}, 1); },
      [](Call& c, Random&) {
        c.o.sinks = Tensor::zeros({c.heads, 1});
      },
      [](Call& c, Random&) { c.o.sinks = Tensor::zeros({c.heads + 1}); },
      [](Call& c, Random&) {
        c.o.query_documents = ints({c.batch, c.queries}, 0);
      },
      [](Call& c, Random&) {
        c.o.query_documents = ints({c.batch, c.queries}, 0);
        c.o.key_documents = ints({c.batch, c.keys + 1}, 0);
      },
      [bad_float](Call& c, Random& r) { c.o.softcap = r.chance(0.3) ? -1.0f : bad_float(r); },
      [bad_float](Call& c, Random& r) { c.o.scale = bad_float(r); },
      [bad_float](Call& c, Random& r) {
        c.o.dropout.rate = r.chance(0.3) ? 1.0f : r.chance(0.5) ? -0.1f : bad_float(r);
      },
      [](Call& c, Random& r) { (r.chance(0.5) ? c.o.window.left : c.o.window.right) = -r.integer(2, INT64_MAX - 1); },
      [](Call& c, Random& r) { c.o.want.taps.top_k = r.chance(0.5) ? c.keys + r.integer(1, 1000) : -1; },
      [](Call& c, Random& r) {
        c.o.want.taps.rows = {{r.chance(0.5) ? c.heads : -1, 0}};
      },
      [](Call& c, Random& r) {
        c.o.want.taps.rows = {{0, r.chance(0.5) ? c.queries : INT64_MIN}};
      },
      [](Call& c, Random&) {
        c.o.want.taps.rows = {{0, 0}, {0, 0}};
      },
      [](Call& c, Random&) {
        c.o.want.taps.map = {c.queries + 1, 1, false};
      },
      [](Call& c, Random&) {
        c.o.want.taps.map = {1, INT64_MAX, true};
      },
      [](Call& c, Random&) {
        c.o.want.taps.map = {-1, 1, false};
      },
      [](Call& c, Random&) {
        c.o.score = score::RelativePosition{{}, 3};
      },
      [](Call& c, Random&) {
        c.o.score = score::RelativePosition{ints({c.heads, 7}, 0), 3};
      },
      [](Call& c, Random&) {
        c.o.score = score::RelativePosition{Tensor::zeros({0}), 3};
      },
  };
}

int64_t wanted_calls() {
  const char* const text = std::getenv("HEED_BAD_CALLS");
  return text == nullptr ? 2000 : std::atoll(text);
}

template <class F>
void expect_error(const F& call, const std::string& what) {
  try {
    call();
    ADD_FAILURE() << what << ": no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.what()[0], '[') << what << ": " << error.what();
    EXPECT_NE(std::string(error.what()).find("; found"), std::string::npos) << what << ": " << error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": another exception: " << error.what();
  }
}

TEST(AttentionBadCalls, EndInTheOneError) {
  const std::vector<Spoil> list = spoils();
  Random random(11);
  for (int64_t n = 0; n < wanted_calls(); ++n) {
    Call c = valid_call(random);
    const auto which = static_cast<size_t>(n) % list.size();
    list[which](c, random);
    const std::string what = "spoil " + std::to_string(which) + ", call " + std::to_string(n);
    expect_error([&] { (void)attention(c.q, c.k, c.v, c.o); }, what);
    expect_error([&] { (void)attention_plan(c.q, c.k, c.v, c.o); }, what + ", plan");
    expect_error([&] { (void)reference::attention(c.q, c.k, c.v, c.o); }, what + ", reference");
  }
}

TEST(AttentionBadCalls, OfTheBackwardPassEndInTheOneError) {
  Random random(12);
  using SpoilForward = std::function<void(Tensor&, AttentionResult&, AttentionWantGradients&, Random&)>;
  const std::vector<SpoilForward> list = {
      [](Tensor& d, AttentionResult&, AttentionWantGradients&, Random&) { d = {}; },
      [](Tensor& d, AttentionResult&, AttentionWantGradients&, Random&) { d = d.to(DType::f16); },
      [](Tensor& d, AttentionResult&, AttentionWantGradients&, Random& r) {
        d = resized(d, static_cast<int>(r.integer(0, 3)), r);
      },
      [](Tensor&, AttentionResult& f, AttentionWantGradients&, Random&) { f.output = {}; },
      [](Tensor&, AttentionResult& f, AttentionWantGradients&, Random& r) {
        f.output = resized(f.output, static_cast<int>(r.integer(0, 3)), r);
      },
      [](Tensor&, AttentionResult& f, AttentionWantGradients&, Random&) { f.logsumexp = {}; },
      [](Tensor&, AttentionResult& f, AttentionWantGradients&, Random& r) {
        f.logsumexp = resized(f.logsumexp, static_cast<int>(r.integer(0, 2)), r);
      },
      [](Tensor&, AttentionResult&, AttentionWantGradients& w, Random&) { w.bias = true; },
      [](Tensor&, AttentionResult&, AttentionWantGradients& w, Random&) { w.alibi_slopes = true; },
      [](Tensor&, AttentionResult&, AttentionWantGradients& w, Random&) { w.score_table = true; },
  };
  for (int64_t n = 0; n < wanted_calls() / 2; ++n) {
    Call c = valid_call(random);
    c.o.want.logsumexp = true;
    AttentionResult forward = attention(c.q, c.k, c.v, c.o);
    Tensor d_output = forward.output.clone();
    AttentionWantGradients want;
    const auto which = static_cast<size_t>(n) % list.size();
    list[which](d_output, forward, want, random);
    expect_error([&] { (void)attention_backward(d_output, c.q, c.k, c.v, forward, c.o, want); },
                 "backward spoil " + std::to_string(which) + ", call " + std::to_string(n));
  }
}

TEST(AttentionBadCalls, OfCachesAndRaggedBatchesEndInTheOneError) {
  Random random(13);
  for (int64_t n = 0; n < wanted_calls() / 4; ++n) {
    const int64_t page = random.integer(1, 8), pages = random.integer(1, 5), keys = page * pages;
    const Tensor q = random.tensor({1, 2, random.integer(1, 9), 6});
    const Tensor k = random.tensor({pages, 2, page, 6}), v = random.tensor({pages, 2, page, 5});
    const auto wrong = static_cast<int32_t>(random.chance(0.5) ? pages + random.integer(0, INT32_MAX - pages) : -1);
    KeyValues memory{k, v};
    memory.lengths = ints({1}, static_cast<int32_t>(keys));
    memory.pages = ints({1, pages}, 0);
    switch (n % 5) {
      case 0: memory.pages.data<int32_t>()[random.integer(0, pages - 1)] = wrong; break;
      case 1: memory.lengths = ints({1}, static_cast<int32_t>(keys + random.integer(1, 9))); break;
      case 2: memory.lengths = {}; break;
      case 3: memory.pages = memory.pages.to(DType::i64); break;
      default: memory.key = k.to(DType::i8); break;  // without scales
    }
    expect_error([&] { (void)attention(q, memory, {}); }, "memory, call " + std::to_string(n));

    const Tensor rows = random.tensor({12, 2, 6});
    std::vector<int32_t> begins{0, 4, 9, 12};
    begins[static_cast<size_t>(random.integer(0, 3))] += static_cast<int32_t>(random.integer(10, 100));
    const Tensor cumulative = Tensor::from(std::span<const int32_t>(begins), {4});
    expect_error(
        [&] {
          (void)attention_varlen(rows, rows, rows, {cumulative, cumulative});
        },
        "packed, call " + std::to_string(n));
  }
}

}  // namespace
}  // namespace heed
