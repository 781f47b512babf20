// Attention in double precision, by loops over plain arrays. Shares nothing with the product: shapes, masks, offsets
// and gradients are worked out here from the text of the header.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace oracle {

struct AttentionCase {
  int64_t B = 1, H = 1, Hkv = 1, L = 1, S = 1, D = 1, Dv = 1;
  std::vector<double> q, k, v, d_out;  // (B,H,L,D) (B,Hkv,S,D) (B,Hkv,S,Dv) (B,H,L,Dv)
  double scale = 1, softcap = 0;
  enum class Causal { none, top_left, bottom_right, offset } causal = Causal::none;
  int64_t causal_offset = 0;
  int64_t left = -1, right = -1;
  std::vector<int> lengths;                   // (B) or empty
  std::vector<char> mask;                     // (B,H,L,S) or empty
  std::vector<double> bias;                   // (B,H,L,S) or empty
  std::vector<double> slopes, sinks;          // (H) or empty
  std::vector<int> q_documents, k_documents;  // (B,L), (B,S) or empty
  // What becomes of a scaled, capped score of pair (b, h, i, j), without its derivative; empty: nothing.
  std::function<double(double, int64_t, int64_t, int64_t, int64_t)> score;
  // What dropout multiplies a weight by; empty: 1.
  std::function<double(int64_t, int64_t, int64_t, int64_t)> dropout;
};

struct AttentionAnswer {
  std::vector<double> out, lse, weights;              // (B,H,L,Dv) (B,H,L) (B,H,L,S) after dropout
  std::vector<double> scores;                         // (B,H,L,S): what enters the softmax; -inf: not attended
  std::vector<double> d_q, d_k, d_v, d_bias, d_sink;  // d_bias (B,H,L,S), d_sink (H)
};

inline AttentionAnswer attention(const AttentionCase& c) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto at = [](int64_t a, int64_t b, int64_t nb, int64_t i, int64_t ni, int64_t d, int64_t nd) {
    return static_cast<size_t>(((a * nb + b) * ni + i) * nd + d);
  };
  AttentionAnswer r;
  r.out.assign(static_cast<size_t>(c.B * c.H * c.L * c.Dv), 0);
  r.lse.assign(static_cast<size_t>(c.B * c.H * c.L), -inf);
  r.weights.assign(static_cast<size_t>(c.B * c.H * c.L * c.S), 0);
  r.scores.assign(r.weights.size(), -inf);
  r.d_bias = r.weights;
  r.d_q.assign(c.q.size(), 0);
  r.d_k.assign(c.k.size(), 0);
  r.d_v.assign(c.v.size(), 0);
  r.d_sink.assign(static_cast<size_t>(c.H), 0);
  for (int64_t b = 0; b < c.B; ++b) {
    const int64_t len = c.lengths.empty() ? c.S : c.lengths[static_cast<size_t>(b)];
    for (int64_t h = 0; h < c.H; ++h) {
      const int64_t g = h * c.Hkv / c.H;
      for (int64_t i = 0; i < c.L; ++i) {
        int64_t offset = len - c.L;
        if (c.causal == AttentionCase::Causal::top_left) offset = 0;
        if (c.causal == AttentionCase::Causal::offset) offset = c.causal_offset;
        std::vector<double> s(static_cast<size_t>(c.S), -inf), slope(static_cast<size_t>(c.S), 1);
        for (int64_t j = 0; j < len; ++j) {
          if (c.causal != AttentionCase::Causal::none && j > i + offset) continue;
          if (c.left >= 0 && j < i + offset - c.left) continue;
          if (c.right >= 0 && j > i + offset + c.right) continue;
          if (!c.mask.empty() && !c.mask[at(b, h, c.H, i, c.L, j, c.S)]) continue;
          if (!c.q_documents.empty() &&
              c.q_documents[static_cast<size_t>(b * c.L + i)] != c.k_documents[static_cast<size_t>(b * c.S + j)]) {
            continue;
          }
          double x = 0;
          for (int64_t d = 0; d < c.D; ++d)
            x += c.q[at(b, h, c.H, i, c.L, d, c.D)] * c.k[at(b, g, c.Hkv, j, c.S, d, c.D)];
          x *= c.scale;
          if (c.softcap > 0) {
            const double t = std::tanh(x / c.softcap);
            x = c.softcap * t;
            slope[static_cast<size_t>(j)] = 1 - t * t;
          }
          if (c.score) x = c.score(x, b, h, i, j);
          if (!c.slopes.empty()) x -= c.slopes[static_cast<size_t>(h)] * std::fabs(static_cast<double>(i + offset - j));
          if (!c.bias.empty()) {
            const double y = c.bias[at(b, h, c.H, i, c.L, j, c.S)];
            if (y == -inf) continue;
            x += y;
          }
          s[static_cast<size_t>(j)] = r.scores[at(b, h, c.H, i, c.L, j, c.S)] = x;
        }
        double top = -inf;
        for (double x : s) top = x > top ? x : top;
        const double sink = c.sinks.empty() ? -inf : c.sinks[static_cast<size_t>(h)];
        top = sink > top ? sink : top;
        if (top == -inf) continue;
        double z = std::exp(sink - top);
        for (double x : s) z += std::exp(x - top);
        r.lse[static_cast<size_t>((b * c.H + h) * c.L + i)] = top + std::log(z);
        std::vector<double> p(static_cast<size_t>(c.S)), dp(static_cast<size_t>(c.S)), keep(static_cast<size_t>(c.S));
        double dot = 0;
        for (int64_t j = 0; j < c.S; ++j) {
          const auto n = static_cast<size_t>(j);
          if (s[n] == -inf) continue;
          p[n] = std::exp(s[n] - top) / z;
          keep[n] = c.dropout ? c.dropout(b, h, i, j) : 1;
          r.weights[at(b, h, c.H, i, c.L, j, c.S)] = p[n] * keep[n];
          for (int64_t d = 0; d < c.Dv; ++d) {
            const double value = c.v[at(b, g, c.Hkv, j, c.S, d, c.Dv)];
            r.out[at(b, h, c.H, i, c.L, d, c.Dv)] += p[n] * keep[n] * value;
            if (c.d_out.empty()) continue;
            const double up = c.d_out[at(b, h, c.H, i, c.L, d, c.Dv)];
            dp[n] += keep[n] * up * value;
            r.d_v[at(b, g, c.Hkv, j, c.S, d, c.Dv)] += p[n] * keep[n] * up;
          }
          dot += p[n] * dp[n];
        }
        if (c.d_out.empty()) continue;
        if (!c.sinks.empty()) r.d_sink[static_cast<size_t>(h)] -= std::exp(sink - top) / z * dot;
        for (int64_t j = 0; j < c.S; ++j) {
          const auto n = static_cast<size_t>(j);
          if (s[n] == -inf) continue;
          const double ds = p[n] * (dp[n] - dot);
          r.d_bias[at(b, h, c.H, i, c.L, j, c.S)] = ds;
          for (int64_t d = 0; d < c.D; ++d) {
            r.d_q[at(b, h, c.H, i, c.L, d, c.D)] += ds * slope[n] * c.scale * c.k[at(b, g, c.Hkv, j, c.S, d, c.D)];
            r.d_k[at(b, g, c.Hkv, j, c.S, d, c.D)] += ds * slope[n] * c.scale * c.q[at(b, h, c.H, i, c.L, d, c.D)];
          }
        }
      }
    }
  }
  return r;
}

}  // namespace oracle
