// The options of attention(): who sees whom, what is added to the scores, what is returned.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heed/export.h"
#include "heed/score.h"
#include "heed/tensor.h"

HEED_EXPORT_BEGIN
namespace heed {

// Query i may see key j iff j <= i + offset.
class Causal {
 public:
  [[nodiscard]] static Causal none() { return {}; }
  [[nodiscard]] static Causal top_left() { return Causal(Kind::offset, 0); }  // offset 0, as PyTorch
  [[nodiscard]] static Causal bottom_right() {
    return Causal(Kind::bottom_right, 0);
  }  // offset S - L: the last query sees all
  [[nodiscard]] static Causal offset(int64_t offset) { return Causal(Kind::offset, offset); }

  [[nodiscard]] bool enabled() const { return kind_ != Kind::none; }
  // The offset for these lengths; with key_lengths, `keys` is the length of that sequence.
  [[nodiscard]] int64_t offset_for(int64_t queries, int64_t keys) const {
    return kind_ == Kind::bottom_right ? keys - queries : offset_;
  }

 private:
  enum class Kind { none, bottom_right, offset };
  Causal() = default;
  Causal(Kind kind, int64_t offset) : kind_(kind), offset_(offset) {}
  Kind kind_ = Kind::none;
  int64_t offset_ = 0;
};

// Statistics of the weights, computed without storing the weights: memory linear in L + S. They describe the weights
// that Want::weights would return. Each takes a sixth to a third of the time of a forward pass (heed bench options);
// beyond 65,536 keys, and in decoding, two thirds and more.
struct AttentionTaps {
  bool entropy = false;      // of each row, -sum_j w log w, in nats
  int64_t top_k = 0;         // the keys with the largest weights of each row; at most S
  bool column_sums = false;  // sum_i w: how much each key was attended to

  // The weights of each head pooled to a picture of rows x columns cells: cell (r, c) holds rows [r L / rows,
  // (r + 1) L / rows) and keys [c S / columns, (c + 1) S / columns). 0 x 0: none; at most L x S.
  struct Map {
    int64_t rows = 0;
    int64_t columns = 0;
    bool largest = false;  // the largest weight of a cell instead of their mean
  } map = {};

  struct Row {
    int64_t head = 0;
    int64_t query = 0;
  };
  std::vector<Row> rows = {};  // return all weights of these rows, in every sequence; no row may occur twice
  // Also the scores of `rows`, as Want::scores has them. (In bf16 those that the output was computed from: few queries
  // are computed in another way where all scores are wanted.)
  bool row_scores = false;

  [[nodiscard]] bool any() const { return entropy || top_k > 0 || column_sums || map.rows > 0 || !rows.empty(); }
};

struct AttentionOptions {
  std::optional<float> scale = {};  // 1/sqrt(D) unless given
  Causal causal = Causal::none();

  // Query i sees key j only if i + offset - left <= j <= i + offset + right (-1: no bound), where offset is the causal
  // one, or S - L without causal. Intersects with causal and masks.
  struct Window {
    int64_t left = -1;
    int64_t right = -1;
  } window = {};

  Tensor key_lengths = {};   // (B) i32: keys at and beyond the length are not attended; undefined: all S
  Tensor mask = {};          // boolean, true = attends; any shape that broadcasts to (B, H, L, S); undefined: none
  Tensor bias = {};          // f32, added to the scores (-inf: not attended); broadcasts likewise; undefined: none
  float softcap = 0;         // c: scores become c * tanh(score / c), before bias and masks; 0: off
  Tensor alibi_slopes = {};  // (H) f32: adds -slope_h * |i + offset - j|; undefined: none
  Score score = {};          // any function of the score, its position and a table (score.h), after softcap and ALiBi
  Tensor sinks = {};         // (H) f32: one more score in the softmax of every row, without a value; undefined: none
  // A query sees only the keys of its own document.
  Tensor query_documents = {};  // (B, L) i32; only together with key_documents
  Tensor key_documents = {};    // (B, S) i32; only together with query_documents

  // Dropout on the normalised weights. Whether a weight is kept is a pure function of (seed, b, h, i, j).
  struct Dropout {
    float rate = 0;  // in [0, 1), rounded to a multiple of 2^-16: kept weights are divided by 1 - rate
    uint64_t seed = 0;
  } dropout = {};

  // What to return beside the output.
  struct Want {
    bool logsumexp = false;
    bool weights = false;  // (B, H, L, S) f32, after dropout. Memory L * S, as for scores
    bool scores = false;   // (B, H, L, S) f32: what enters the softmax, after scale, softcap, score function, bias and
                           // masks; -inf where not attended
    AttentionTaps taps = {};
    // Where the output goes: (B, H, L, Dv) in the query's type, unit stride along Dv; it must not overlap an operand.
    // Undefined: heed makes memory for it.
    Tensor output = {};
  } want = {};
};

}  // namespace heed
HEED_EXPORT_END
