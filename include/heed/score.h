// Score functions change the scores before the softmax. Write your own like this:
//
//   struct Distance {                                   // score - w_h log(1 + |distance|), w learned for each head
//     Tensor table;                                     // w (H), gets a gradient
//     HEED_INLINE auto entry(const auto& at) const { return at.head(); }   // the table element of this pair
//     template <class Number>
//     HEED_INLINE Number operator()(const Number& score, const Number& w, const auto& at) const {
//       return score - w * log(Number(1.0f) + Number(abs(at.distance())));
//     }
//   };
//   auto r = attention(q, k, v, {.score = Distance{weights}});
//
// It is compiled into the kernels' tiles for every instruction set, as many pairs at a time as its vectors hold (Number
// = LanesOf<16>, <8> or <4>), with derivatives for the backward pass (Number = Dual of those), and in double precision
// for the reference. Without a table: operator()(score, at). If these derivatives do not suit a function, it
// adds its own:
//     template <class Real> HEED_INLINE Real derivative(const Real& score, const auto& at) const;
// A function may say which shape its table must have for H heads; attention() then refuses any other:
//     Shape table_shape(int64_t heads) const;
// HEED_INLINE matters: a function that is not inlined is compiled for the baseline processor only. Its results are
// right, but it is several times slower. heed's own (softcap, ALiBi, relative positions, radial kernels) are written in
// the same way: see the end of this file.
#pragma once

#include <algorithm>
#include <concepts>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "heed/cpu.h"
#include "heed/export.h"
#include "heed/lanes.h"
#include "heed/tensor.h"

HEED_EXPORT_BEGIN
namespace heed {
namespace score {

// Which pair a score belongs to: IntsOf and LanesOf for several side by side, Whole and Exact for one.
template <class Int, class Real>
struct Pair {
  Int heads, queries, keys, offset;
  int64_t sequence_;

  [[nodiscard]] HEED_INLINE int64_t sequence() const { return sequence_; }
  [[nodiscard]] HEED_INLINE Int head() const { return heads; }
  [[nodiscard]] HEED_INLINE Int query() const { return queries; }
  [[nodiscard]] HEED_INLINE Int key() const { return keys; }
  // How far the query stands behind the key: i + offset - j, with the offset of causal, or S - L without.
  [[nodiscard]] HEED_INLINE Int ahead() const { return queries + offset - keys; }
  [[nodiscard]] HEED_INLINE Real distance() const { return to_real(ahead()); }
};
template <int kWidth>
using PairsOf = Pair<IntsOf<kWidth>, LanesOf<kWidth>>;
using Pairs = PairsOf<16>;
using OnePair = Pair<Whole, Exact>;

template <class F>
concept ScoreFunction = requires(const F& f, const Lanes& s, const Pairs& at) {
  { f(s, at) } -> std::convertible_to<Lanes>;
};
template <class F>
concept TableScoreFunction = requires(const F& f, const Lanes& s, const Pairs& at) {
  { f(s, s, at) } -> std::convertible_to<Lanes>;
  { f.entry(at) } -> std::convertible_to<Ints>;
  { f.table } -> std::convertible_to<Tensor>;
};

// One pair, for the reference.
struct Evaluated {
  double value, by_score, by_entry;
  int64_t entry;
};

namespace detail {

template <class F>
inline constexpr bool has_table = TableScoreFunction<F>;
template <class F, class Real, class At>
concept HasDerivative = requires(const F& f, const Real& s, const At& at) {
  { f.derivative(s, at) } -> std::convertible_to<Real>;
};

template <class F>
concept HasTableShape = requires(const F& f, int64_t heads) {
  { f.table_shape(heads) } -> std::convertible_to<Shape>;
};

// The value and its derivative by the score, or, of functions with a table, by the entry.
template <class F, class Real, class At>
HEED_INLINE Dual<Real> by_score(const F& f, const Real& score, const Real& entry, const At& at) {
  if constexpr (has_table<F>) {
    return f(Dual<Real>(score, Real(1.0f)), Dual<Real>(entry), at);
  } else if constexpr (HasDerivative<F, Real, At>) {
    return {f(score, at), f.derivative(score, at)};
  } else {
    return f(Dual<Real>(score, Real(1.0f)), at);
  }
}
template <class F, class Real, class At>
HEED_INLINE Real by_entry(const F& f, const Real& score, const Real& entry, const At& at) {
  if constexpr (has_table<F>) {
    return Dual<Real>(f(Dual<Real>(score), Dual<Real>(entry, Real(1.0f)), at)).slope;
  } else {
    return Real(0.0f);
  }
}

template <int kWidth>
HEED_INLINE bool all_zero(const IntsOf<kWidth>& x) {
  uint64_t words[kWidth / 2], any = 0;
  __builtin_memcpy(words, x.v, sizeof words);
  for (const uint64_t word : words) any |= word;
  return any == 0;
}

// table[entry]; where neighbours use neighbours (a position's), as one vector.
template <int kWidth>
HEED_INLINE LanesOf<kWidth> look_up(const float* table, const IntsOf<kWidth>& entry) {
  constexpr int32_t kIota[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  if (all_zero(entry - IntsOf<kWidth>::load(kIota) - entry.v[0])) return LanesOf<kWidth>::load(table + entry.v[0]);
  LanesOf<kWidth> r;
  for (int32_t n = 0; n < kWidth; ++n) r.v[n] = table[entry.v[n]];
  return r;
}

// Copies, where they are cheap: what is read again behind every store could not stay in registers.
template <class F>
using Held = std::conditional_t<std::is_trivially_copyable_v<F>, const F, const F&>;

// Functions that are written for Lanes alone stay with sixteen.
template <class F, int kWidth>
concept TakesWidth = requires(const F& f, const LanesOf<kWidth>& s, const PairsOf<kWidth>& at) {
  requires(requires {
    { f(s, at) } -> std::convertible_to<LanesOf<kWidth>>;
  }) ||
      (requires {
        { f(s, s, at) } -> std::convertible_to<LanesOf<kWidth>>;
      });
};

template <int kMost, class F>
HEED_INLINE void run(const F& function, const Block& block) {
  constexpr int kWidth = TakesWidth<F, kMost> ? kMost : 16;  // NOLINT: kMost may be 16
  using Real = LanesOf<kWidth>;
  using Int = IntsOf<kWidth>;
  const Held<F> f = function;
  const Block b = block;
  const Int step(b.key_step);
  for (int64_t n = 0; n < b.width; n += Real::kCount) {
    PairsOf<kWidth> at{Int::load(b.head + n), Int::load(b.query + n), Int::load(b.key + n),
                       Int(static_cast<int32_t>(b.offset)), b.sequence};
    Int entry(-1);
    Real used(0.0f);
    int64_t place = n;
    if constexpr (!has_table<F>) {  // four lines in turn: softcap takes 36 cycles a vector then, one by one 57
      for (; b.by_score == nullptr && place + 3 * b.width < b.lines * b.width; place += 4 * b.width) {
        Real results[4];
#pragma GCC unroll 4
        for (int line = 0; line < 4; ++line) {
          results[line] = f(Real::load(b.scores + place + line * b.width), at);
          at.keys = at.keys + step;
        }
#pragma GCC unroll 4
        for (int line = 0; line < 4; ++line) results[line].store(b.scores + place + line * b.width);
      }
    }
    for (; place < b.lines * b.width; place += b.width, at.keys = at.keys + step) {
      const Real score = Real::load(b.scores + place);
      if constexpr (has_table<F>) {  // an entry beyond the table is the nearest one of it
        const Int next = min(max(Int(f.entry(at)), Int(0)), Int(b.entries - 1));
        if (!all_zero(next - entry)) used = look_up(b.table, next);  // often the same as before: that of the head
        entry = next;
        if (b.entry != nullptr) entry.store(b.entry + place);
      }
      if (b.by_score == nullptr) {
        if constexpr (has_table<F>) {
          Real(f(score, used, at)).store(b.scores + place);
        } else {
          Real(f(score, at)).store(b.scores + place);
        }
        continue;
      }
      const Dual<Real> result = by_score(f, score, used, at);
      result.value.store(b.scores + place);
      result.slope.store(b.by_score + place);
      if (b.by_entry != nullptr) by_entry(f, score, used, at).store(b.by_entry + place);
    }
  }
}

using Run = void (*)(const void*, const Block&);

// Interleaves the instructions of independent lanes: GCC does so only if it schedules before register allocation.
#if defined(__GNUC__) && !defined(__clang__)
#define HEED_IN_TURN , optimize("schedule-insns", "sched-pressure")
#else
#define HEED_IN_TURN
#endif

template <class F>
struct Compiled {
  __attribute__((flatten)) static void portable(const void* f, const Block& b) { run<4>(*static_cast<const F*>(f), b); }
#if defined(__x86_64__) && !defined(HEED_PORTABLE_ONLY)
  __attribute__((target("avx2"), flatten HEED_IN_TURN)) static void avx2(const void* f, const Block& b) {
    run<8>(*static_cast<const F*>(f), b);
  }
  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"), flatten HEED_IN_TURN)) static void avx512(
      const void* f, const Block& b) {
    run<16>(*static_cast<const F*>(f), b);
  }
#else
  static constexpr Run avx2 = portable, avx512 = portable;
#endif
  static Evaluated one(const void* opaque, double score, const double* table, int64_t entries, const OnePair& at) {
    const F& f = *static_cast<const F*>(opaque);
    int64_t entry = 0;
    if constexpr (has_table<F>) entry = std::clamp<int64_t>(Whole(f.entry(at)).v, 0, entries - 1);
    const Exact used = table == nullptr ? 0.0 : table[entry];
    const Dual<Exact> r = by_score(f, Exact(score), used, at);
    return {r.value.v, r.slope.v, by_entry(f, Exact(score), used, at).v, entry};
  }
};

#undef HEED_IN_TURN

}  // namespace detail
}  // namespace score

// A score function of any kind, or none. Copies share the function; its table is shared memory as any tensor.
class Score {
 public:
  Score() = default;
  template <class F>
  requires(score::ScoreFunction<F> || score::TableScoreFunction<F>) Score(F f) {  // NOLINT: a score function is one
    using Compiled = score::detail::Compiled<F>;
    if constexpr (score::detail::has_table<F>) table_ = f.table;
    has_table_ = score::detail::has_table<F>;
    if constexpr (score::detail::HasTableShape<F>) {
      table_shape_ = [](const void* function, int64_t heads) {
        return Shape(static_cast<const F*>(function)->table_shape(heads));
      };
    }
    function_ = std::make_shared<const F>(std::move(f));
    run_[0] = Compiled::portable, run_[1] = Compiled::avx2, run_[2] = Compiled::avx512;
    one_ = Compiled::one;
  }

  [[nodiscard]] bool defined() const { return function_ != nullptr; }
  [[nodiscard]] bool has_table() const { return has_table_; }
  [[nodiscard]] const Tensor& table() const { return table_; }  // as the function was made with it

  // The shape that the table must have for so many heads; none: any shape will do.
  [[nodiscard]] std::optional<Shape> table_shape(int64_t heads) const {
    return table_shape_ == nullptr ? std::nullopt : std::optional<Shape>(table_shape_(function_.get(), heads));
  }

  // For kernels: run(isa)(function(), block) turns the scores of a block into what the function makes of them.
  [[nodiscard]] const void* function() const { return function_.get(); }
  [[nodiscard]] score::detail::Run run(Isa isa) const {
    return isa >= Isa::avx512 ? run_[2] : run_[isa == Isa::avx2 ? 1 : 0];  // f32, so that the rest is AVX-512 as well
  }
  [[nodiscard]] score::Evaluated one(double score, const double* table, int64_t entries,
                                     const score::OnePair& at) const {
    return one_(function_.get(), score, table, entries, at);
  }

 private:
  std::shared_ptr<const void> function_;
  score::detail::Run run_[3] = {};
  score::Evaluated (*one_)(const void*, double, const double*, int64_t, const score::OnePair&) = nullptr;
  Shape (*table_shape_)(const void*, int64_t) = nullptr;
  Tensor table_;
  bool has_table_ = false;
};

namespace score {

// c tanh(s / c): scores stay within (-c, c).
struct Softcap {
  float cap;
  template <class Number, class At>
  HEED_INLINE Number operator()(const Number& score, const At&) const {
    return tanh(score * (Number(1.0f) / Number(cap))) * Number(cap);
  }
};

// ALiBi (Press et al. 2022): score - slope_h |i + offset - j|.
struct Alibi {
  Tensor table;  // slopes (H)
  [[nodiscard]] Shape table_shape(int64_t heads) const { return {heads}; }
  template <class At>
  HEED_INLINE auto entry(const At& at) const {
    return at.head();
  }
  template <class Number, class At>
  HEED_INLINE Number operator()(const Number& score, const Number& slope, const At& at) const {
    return score - slope * Number(abs(at.distance()));
  }
};

// Relative positions (Shaw et al. 2018, as a bias): score + table[h, clamp(i + offset - j, -reach, reach) + reach].
struct RelativePosition {
  Tensor table;  // (H, 2 reach + 1)
  int32_t reach;
  [[nodiscard]] Shape table_shape(int64_t heads) const { return {heads, 2 * int64_t{reach} + 1}; }
  template <class At>
  HEED_INLINE auto entry(const At& at) const {
    using Int = decltype(at.head());
    return at.head() * Int(2 * reach + 1) + min(max(at.ahead(), Int(-reach)), Int(reach)) + Int(reach);
  }
  template <class Number, class At>
  HEED_INLINE Number operator()(const Number& score, const Number& bias, const At&) const {
    return score + bias;
  }
};

// The width of a kernel. Throws Error unless it is above 0.
[[nodiscard]] float checked_width(const char* kernel, float width);

// Radial kernels for attention_radial(): ln alpha of the squared distance |q - k|^2.
// Gaussian: -r^2 / (2 width^2).
struct Gaussian {
  Gaussian(float of_width) : width(checked_width("score::Gaussian", of_width)) {}
  float width;
  template <class Number, class At>
  HEED_INLINE Number operator()(const Number& square, const At&) const {
    return square / (width * width) * -0.5f;
  }
};

// 1 within the width, 0 beyond.
struct Boxcar {
  Boxcar(float of_width) : width(checked_width("score::Boxcar", of_width)) {}
  float width;
  template <class Number, class At>
  HEED_INLINE Number operator()(const Number& square, const At&) const {
    return select(square < Number(width * width), Number(0.0f), Number(-std::numeric_limits<float>::infinity()));
  }
};

// max(0, 1 - r / width).
struct Epanechnikov {
  Epanechnikov(float of_width) : width(checked_width("score::Epanechnikov", of_width)) {}
  float width;
  template <class Number, class At>
  HEED_INLINE Number operator()(const Number& square, const At&) const {
    // Where query and key are the same, a root of 0 would have an infinite derivative.
    const Number rest = Number(1.0f) - sqrt(max(square, Number(1e-30f))) / width;
    return select(rest > Number(0.0f), log(max(rest, Number(1e-30f))), Number(-std::numeric_limits<float>::infinity()));
  }
};

}  // namespace score
}  // namespace heed
HEED_EXPORT_END
