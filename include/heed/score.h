// Score functions: what becomes of a score before the softmax. One may write one's own:
//
//   struct Distance {                                       // score - w_h * log(1 + |distance|), w learned for each
//   head
//     Tensor table;                                         // (H), gets a gradient
//     template <class At>
//     auto entry(const At& at) const { return at.head(); }  // which element of the table this pair uses
//     template <class Number, class At>
//     Number operator()(const Number& score, const Number& w, const At& at) const {
//       return score - w * log(1.0f + abs(at.distance()));
//     }
//   };
//   auto r = attention(q, k, v, {.score = Distance{weights}});
//
// It is compiled into the kernels' tiles, sixteen pairs at a time, for every instruction set (Number = Lanes), with
// derivatives for the backward pass (Number = Dual<Lanes>), and in double precision for the reference. Without a table:
// operator()(score, at). A function that is not differentiated well that way adds
//     template <class Real, class At> Real derivative(const Real& score, const At& at) const;
// heed's own (softcap, ALiBi, relative positions, radial kernels) are written in the same way: see the end of this
// file.
#pragma once

#include <algorithm>
#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "heed/cpu.h"
#include "heed/lanes.h"
#include "heed/tensor.h"

namespace heed {
namespace score {

// Which pair a score belongs to: Ints and Lanes for sixteen of them, Whole and Exact for one.
template <class Int, class Real>
struct Pair {
  Int heads, queries, keys;
  int64_t sequence_, offset_;

  [[nodiscard]] HEED_INLINE int64_t sequence() const { return sequence_; }
  [[nodiscard]] HEED_INLINE Int head() const { return heads; }
  [[nodiscard]] HEED_INLINE Int query() const { return queries; }
  [[nodiscard]] HEED_INLINE Int key() const { return keys; }
  // Keys that the query stands behind this key: i + offset - j, with the offset of causal, or S - L without.
  [[nodiscard]] HEED_INLINE Int ahead() const { return queries + Int(static_cast<int32_t>(offset_)) - keys; }
  [[nodiscard]] HEED_INLINE Real distance() const { return to_real(ahead()); }
};
using Pairs = Pair<Ints, Lanes>;
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

template <class F, class Real, class At>
HEED_INLINE Dual<Real> differentiate(const F& f, const Real& score, const Real& entry, const At& at) {
  const Dual<Real> s(score, Real(1.0f), Real(0.0f)), e(entry, Real(0.0f), Real(1.0f));
  if constexpr (has_table<F>) {
    return f(s, e, at);
  } else if constexpr (HasDerivative<F, Real, At>) {
    return {f(score, at), f.derivative(score, at), Real(0.0f)};
  } else {
    return f(s, at);
  }
}

template <class F>
HEED_INLINE void run(const F& f, const Block& b) {
  for (int64_t line = 0; line < b.lines; ++line) {
    const Ints step(static_cast<int32_t>(line) * b.key_step);
    for (int64_t n = 0; n < b.width; n += Lanes::kCount) {
      const Pairs at{Ints::load(b.head + n), Ints::load(b.query + n), Ints::load(b.key + n) + step, b.sequence,
                     b.offset};
      const int64_t place = line * b.width + n;
      const Lanes score = Lanes::load(b.scores + place);
      Lanes used(0.0f);
      if constexpr (has_table<F>) {  // an entry beyond the table is the nearest one of it
        const Ints entry = min(max(Ints(f.entry(at)), Ints(0)), Ints(b.entries - 1));
        for (int64_t lane = 0; lane < Lanes::kCount; ++lane) used.v[lane] = b.table[entry.v[lane]];
        if (b.entry != nullptr) entry.store(b.entry + place);
      }
      if (b.by_score == nullptr) {
        if constexpr (has_table<F>) {
          Lanes(f(score, used, at)).store(b.scores + place);
        } else {
          Lanes(f(score, at)).store(b.scores + place);
        }
        continue;
      }
      const Dual<Lanes> result = differentiate(f, score, used, at);
      result.value.store(b.scores + place);
      result.by_score.store(b.by_score + place);
      if (b.by_entry != nullptr) result.by_entry.store(b.by_entry + place);
    }
  }
}

using Run = void (*)(const void*, const Block&);

template <class F>
struct Compiled {
  __attribute__((flatten)) static void portable(const void* f, const Block& b) { run(*static_cast<const F*>(f), b); }
#if defined(__x86_64__) && !defined(HEED_PORTABLE_ONLY)
  __attribute__((target("avx2,fma"), flatten)) static void avx2(const void* f, const Block& b) {
    run(*static_cast<const F*>(f), b);
  }
  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma"), flatten)) static void avx512(const void* f,
                                                                                                const Block& b) {
    run(*static_cast<const F*>(f), b);
  }
#else
  static constexpr Run avx2 = portable, avx512 = portable;
#endif
  static Evaluated one(const void* opaque, double score, const double* table, int64_t entries, const OnePair& at) {
    const F& f = *static_cast<const F*>(opaque);
    int64_t entry = 0;
    if constexpr (has_table<F>) entry = std::clamp<int64_t>(Whole(f.entry(at)).v, 0, entries - 1);
    const Dual<Exact> r = differentiate(f, Exact(score), Exact(table == nullptr ? 0.0 : table[entry]), at);
    return {r.value.v, r.by_score.v, r.by_entry.v, entry};
  }
};

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
    function_ = std::make_shared<const F>(std::move(f));
    run_[0] = Compiled::portable, run_[1] = Compiled::avx2, run_[2] = Compiled::avx512;
    one_ = Compiled::one;
  }

  [[nodiscard]] bool defined() const { return function_ != nullptr; }
  [[nodiscard]] bool has_table() const { return has_table_; }
  [[nodiscard]] const Tensor& table() const { return table_; }  // as the function was made with it

  // For kernels: run(isa)(function(), block) turns the scores of a block into what the function makes of them.
  [[nodiscard]] const void* function() const { return function_.get(); }
  [[nodiscard]] score::detail::Run run(Isa isa) const { return run_[static_cast<int>(isa)]; }
  [[nodiscard]] score::Evaluated one(double score, const double* table, int64_t entries,
                                     const score::OnePair& at) const {
    return one_(function_.get(), score, table, entries, at);
  }

 private:
  std::shared_ptr<const void> function_;
  score::detail::Run run_[3] = {};
  score::Evaluated (*one_)(const void*, double, const double*, int64_t, const score::OnePair&) = nullptr;
  Tensor table_;
  bool has_table_ = false;
};

namespace score {

// c tanh(s / c): scores stay within (-c, c).
struct Softcap {
  float cap;
  template <class Number, class At>
  Number operator()(const Number& score, const At&) const {
    return tanh(score / cap) * cap;
  }
};

// ALiBi (Press et al. 2022): score - slope_h |i + offset - j|.
struct Alibi {
  Tensor table;  // slopes (H)
  template <class At>
  auto entry(const At& at) const {
    return at.head();
  }
  template <class Number, class At>
  Number operator()(const Number& score, const Number& slope, const At& at) const {
    return fma(-slope, Number(abs(at.distance())), score);
  }
};

// Relative positions (Shaw et al. 2018, as a bias): score + table[h, clamp(i + offset - j, -reach, reach) + reach].
struct RelativePosition {
  Tensor table;  // (H, 2 reach + 1)
  int32_t reach;
  template <class At>
  auto entry(const At& at) const {
    using Int = decltype(at.head());
    return at.head() * Int(2 * reach + 1) + min(max(at.ahead(), Int(-reach)), Int(reach)) + Int(reach);
  }
  template <class Number, class At>
  Number operator()(const Number& score, const Number& bias, const At&) const {
    return score + bias;
  }
};

// Radial kernels for attention_radial(): ln alpha of the squared distance |q - k|^2.
// Gaussian: -r^2 / (2 width^2).
struct Gaussian {
  float width;
  template <class Number, class At>
  Number operator()(const Number& square, const At&) const {
    return square / (width * width) * -0.5f;
  }
};

// 1 within the width, 0 beyond.
struct Boxcar {
  float width;
  template <class Number, class At>
  Number operator()(const Number& square, const At&) const {
    return select(square < Number(width * width), Number(0.0f), Number(-std::numeric_limits<float>::infinity()));
  }
};

// max(0, 1 - r / width).
struct Epanechnikov {
  float width;
  template <class Number, class At>
  Number operator()(const Number& square, const At&) const {
    const Number rest = Number(1.0f) - sqrt(max(square, Number(0.0f))) / width;
    return select(rest > Number(0.0f), log(max(rest, Number(1e-30f))), Number(-std::numeric_limits<float>::infinity()));
  }
};

}  // namespace score
}  // namespace heed
