// Attention, read as it is written in the paper: one step after the other, in the dtype of the query, f32 or f64.
// No tiles, no vectors, memory L * S. The gradients are the same steps backwards.
#include <cmath>
#include <limits>
#include <vector>

#include "attention/call/problem.h"
#include "attention/observe/taps.h"
#include "base/threads.h"
#include "heed/error.h"

namespace heed::reference {
namespace {

// A tensor of up to four axes as a function of its indices.
template <class T>
class View {
 public:
  explicit View(const Tensor& tensor) : data_(tensor.data<T>()) {
    for (int axis = 0; axis < tensor.rank(); ++axis) strides_[axis] = tensor.strides()[axis];
  }
  T& operator()(int64_t a, int64_t b = 0, int64_t c = 0, int64_t d = 0) const {
    return data_[a * strides_[0] + b * strides_[1] + c * strides_[2] + d * strides_[3]];
  }

 private:
  T* data_;
  int64_t strides_[4] = {};
};

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

// One row of the table: the scores of query i of head h in sequence b against all S keys, and what became of them.
template <class T>
struct Row {
  std::vector<T> scores;   // after softcap, score functions, bias and masks; -inf: not attended
  std::vector<T> slope;    // d score / d (scale * q . k): 1, or the derivative of what scores go through
  std::vector<T> weights;  // softmax of the scores, before dropout
  T logsumexp = 0;
  std::vector<T> by_entry;     // where wanted: d score / d entry of a stage's table,
  std::vector<int64_t> entry;  // and which entry
};

template <class T>
class Attention {
 public:
  Attention(std::string_view function, const Tensor& query, const Tensor& key, const Tensor& value,
            const AttentionOptions& options)
      : p(check_attention(function, query, key, value, options, dtype_of<T>::value)), q(query), k(key), v(value) {
    for (const AttentionProblem::Stage& stage : p.stages) {
      tables_.push_back(stage.table.defined() ? stage.table.to(DType::f64) : Tensor());
    }
  }

  // May query i see key j at all?
  [[nodiscard]] bool attends(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const KeyRange range = p.visible(b, i);
    if (j < range.begin || j >= range.end) return false;
    if (p.mask.defined() && !View<bool>(p.mask)(b, h, i, j)) return false;
    if (p.options.query_documents.defined() &&
        View<int32_t>(p.options.query_documents)(b, i) != View<int32_t>(p.options.key_documents)(b, j)) {
      return false;
    }
    return bias(b, h, i, j) != -kInfinity<T>;
  }

  // Score functions are evaluated in double precision, whatever T.
  [[nodiscard]] score::Evaluated evaluate(size_t stage, double score, int64_t b, int64_t h, int64_t i,
                                          int64_t j) const {
    const Tensor& table = tables_[stage];
    const score::OnePair at{h, i, j, p.score_offset(b), b};
    return p.stages[stage].function.one(score, table.defined() ? table.data<double>() : nullptr,
                                        table.defined() ? table.numel() : 0, at);
  }

  // `want_table`: the stage whose table's derivatives are wanted, or -1.
  [[nodiscard]] Row<T> row(int64_t b, int64_t h, int64_t i, int64_t want_table = -1) const {
    const auto keys = static_cast<size_t>(p.keys);
    Row<T> r{std::vector<T>(keys), std::vector<T>(keys, T{1}), std::vector<T>(keys), T{0}, {}, {}};
    if (want_table >= 0) r.by_entry.resize(keys), r.entry.resize(keys);

    // 1. Scores: how well query i matches key j.
    for (int64_t j = 0; j < p.keys; ++j) {
      const auto n = static_cast<size_t>(j);
      if (!attends(b, h, i, j)) {
        r.scores[n] = -kInfinity<T>;
        continue;
      }
      T score = 0;
      for (int64_t d = 0; d < p.size; ++d) score += q(b, h, i, d) * k(b, kv_head(h), j, d);
      score *= static_cast<T>(p.scale);
      for (size_t stage = 0; stage < p.stages.size(); ++stage) {
        const score::Evaluated e = evaluate(stage, static_cast<double>(score), b, h, i, j);
        score = static_cast<T>(e.value);
        r.slope[n] *= static_cast<T>(e.by_score);
        if (static_cast<int64_t>(stage) == want_table) {
          r.by_entry[n] = static_cast<T>(e.by_entry);
          r.entry[n] = e.entry;
        } else if (want_table >= 0 && static_cast<int64_t>(stage) > want_table) {
          r.by_entry[n] *= static_cast<T>(e.by_score);
        }
      }
      r.scores[n] = score + bias(b, h, i, j);
    }

    // 2. Softmax: subtracting the largest score first keeps exp() from overflowing and changes nothing.
    T largest = sink(h);
    for (const T score : r.scores) largest = score > largest ? score : largest;
    const T shift = largest == -kInfinity<T> ? T{0} : largest;  // a row that attends to nothing: exp(-inf - 0) = 0
    T sum = std::exp(sink(h) - shift);
    for (size_t n = 0; n < keys; ++n) {
      r.weights[n] = std::exp(r.scores[n] - shift);
      sum += r.weights[n];
    }
    r.logsumexp = sum == 0 ? -kInfinity<T> : shift + std::log(sum);
    for (T& weight : r.weights) weight = sum == 0 ? T{0} : weight / sum;
    return r;
  }

  // What dropout multiplies weight (b, h, i, j) by: 0, or 1 / (1 - rate).
  [[nodiscard]] T dropout(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (p.options.dropout.rate == 0) return 1;
    return attention_dropout_keeps(p.options.dropout, b, h, i, j) ? 1 / (1 - static_cast<T>(p.options.dropout.rate))
                                                                  : 0;
  }

  [[nodiscard]] int64_t kv_head(int64_t h) const { return h / p.group(); }
  [[nodiscard]] T sink(int64_t h) const {
    if (!p.options.sinks.defined()) return -kInfinity<T>;
    return p.options.sinks.dtype() == DType::f64 ? static_cast<T>(View<double>(p.options.sinks)(h))
                                                 : static_cast<T>(View<float>(p.options.sinks)(h));
  }
  [[nodiscard]] T bias(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!p.bias.defined()) return 0;
    return p.bias.dtype() == DType::f64 ? static_cast<T>(View<double>(p.bias)(b, h, i, j))
                                        : static_cast<T>(View<float>(p.bias)(b, h, i, j));
  }

  const AttentionProblem p;
  const View<T> q, k, v;

 private:
  std::vector<Tensor> tables_;  // of the stages, f64
};

template <class T>
AttentionResult forward(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  const Attention<T> attention("reference::attention", query, key, value, options);
  const AttentionProblem& p = attention.p;
  check_taps("reference::attention", p);
  const bool want_weights = options.want.weights || options.want.taps.any();
  const bool want_scores = options.want.scores || options.want.taps.row_scores;
  AttentionResult result;
  result.output = Tensor::zeros({p.batch, p.queries, p.heads, p.value_size}, dtype_of<T>::value).transpose(1, 2);
  if (options.want.logsumexp) result.logsumexp = Tensor::empty({p.batch, p.heads, p.queries}, dtype_of<T>::value);
  const Shape scores{p.batch, p.heads, p.queries, p.keys};
  if (want_weights) result.weights = Tensor::empty(scores, dtype_of<T>::value);
  if (want_scores) result.scores = Tensor::empty(scores, dtype_of<T>::value);

  parallel_for(p.batch * p.heads * p.queries, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t i = n % p.queries, h = n / p.queries % p.heads, b = n / p.queries / p.heads;
      const Row<T> row = attention.row(b, h, i);
      if (options.want.logsumexp) View<T>(result.logsumexp)(b, h, i) = row.logsumexp;
      // 3. The output: the mean of the values, weighted. What is not attended is not even multiplied by zero.
      for (int64_t j = 0; j < p.keys; ++j) {
        const bool attended = row.scores[static_cast<size_t>(j)] != -kInfinity<T>;
        const T weight = attended ? row.weights[static_cast<size_t>(j)] * attention.dropout(b, h, i, j) : T{0};
        if (want_weights) View<T>(result.weights)(b, h, i, j) = weight;
        if (want_scores) View<T>(result.scores)(b, h, i, j) = row.scores[static_cast<size_t>(j)];
        if (!attended) continue;
        for (int64_t d = 0; d < p.value_size; ++d) {
          View<T>(result.output)(b, h, i, d) += weight * attention.v(b, attention.kv_head(h), j, d);
        }
      }
    }
  });
  if (options.want.taps.any()) result.taps = taps_of(result.weights, result.scores, options.want.taps);
  if (!options.want.weights) result.weights = {};
  if (!options.want.scores) result.scores = {};
  if (options.want.output.defined()) {
    options.want.output.copy_from(result.output);
    result.output = options.want.output;
  }
  return result;
}

// The position in `gradient`, of the bias's own shape, that (b, h, i, j) was broadcast from.
int64_t unbroadcast(const Tensor& gradient, const std::array<int64_t, 4>& position) {
  int64_t index = 0;
  for (int axis = 0; axis < gradient.rank(); ++axis) {
    const int64_t extent = gradient.size(axis);
    index = index * extent + (extent == 1 ? 0 : position[static_cast<size_t>(axis + 4 - gradient.rank())]);
  }
  return index;
}

template <class T>
AttentionGradients backward(const Tensor& d_output, const Tensor& query, const Tensor& key, const Tensor& value,
                            const AttentionOptions& options) {
  const Attention<T> attention("reference::attention_backward", query, key, value, options);
  const AttentionProblem& p = attention.p;
  const Shape expected{p.batch, p.heads, p.queries, p.value_size};
  require(d_output.defined() && d_output.shape() == expected && d_output.dtype() == dtype_of<T>::value,
          "reference::attention_backward", "d_output (B, H, L, Dv) = ", expected, " in ", dtype_of<T>::value,
          "; found ", d_output.shape(), " in ", d_output.dtype());
  AttentionGradients gradients;
  gradients.query = Tensor::zeros(query.shape(), dtype_of<T>::value);
  gradients.key = Tensor::zeros(key.shape(), dtype_of<T>::value);
  gradients.value = Tensor::zeros(value.shape(), dtype_of<T>::value);
  if (options.bias.defined()) gradients.bias = Tensor::zeros(options.bias.shape(), dtype_of<T>::value);
  if (options.sinks.defined()) gradients.sinks = Tensor::zeros(options.sinks.shape(), dtype_of<T>::value);
  if (options.alibi_slopes.defined()) {
    gradients.alibi_slopes = Tensor::zeros(options.alibi_slopes.shape(), dtype_of<T>::value);
  }
  if (options.score.has_table()) {
    gradients.score_table = Tensor::zeros(options.score.table().shape(), dtype_of<T>::value);
  }
  const View<T> d_out(d_output), d_q(gradients.query), d_k(gradients.key), d_v(gradients.value);
  const T scale = static_cast<T>(p.scale);

  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads; ++h) {
      const int64_t g = attention.kv_head(h);
      for (int64_t i = 0; i < p.queries; ++i) {
        const Row<T> row = attention.row(b, h, i, options.score.has_table() ? p.stage_of_score() : -1);
        const Row<T> alibi = options.alibi_slopes.defined() ? attention.row(b, h, i, p.stage_of_alibi()) : Row<T>{};
        std::vector<T> d_weights(row.weights.size(), T{0});
        T mean = 0;  // sum_j weight_j * d_weight_j
        for (int64_t j = 0; j < p.keys; ++j) {
          const auto n = static_cast<size_t>(j);
          if (row.scores[n] == -kInfinity<T>) continue;
          // 3. output_i = sum_j (weight_ij * dropout_ij) value_j
          const T factor = attention.dropout(b, h, i, j);
          for (int64_t d = 0; d < p.value_size; ++d) {
            d_weights[n] += factor * d_out(b, h, i, d) * attention.v(b, g, j, d);
            d_v(b, g, j, d) += factor * row.weights[n] * d_out(b, h, i, d);
          }
          mean += row.weights[n] * d_weights[n];
        }
        // 2. weight = softmax(score), and the sink is one more score, whose value is 0.
        if (options.sinks.defined() && row.logsumexp != -kInfinity<T>) {
          gradients.sinks.template data<T>()[h] -= std::exp(attention.sink(h) - row.logsumexp) * mean;
        }
        for (int64_t j = 0; j < p.keys; ++j) {
          const auto n = static_cast<size_t>(j);
          if (row.scores[n] == -kInfinity<T>) continue;
          const T d_score = row.weights[n] * (d_weights[n] - mean);
          // 1. score = stages(scale * q . k) + bias
          if (options.bias.defined()) {
            gradients.bias.template data<T>()[unbroadcast(gradients.bias, {b, h, i, j})] += d_score;
          }
          if (options.alibi_slopes.defined()) {
            gradients.alibi_slopes.template data<T>()[alibi.entry[n]] += d_score * alibi.by_entry[n];
          }
          if (options.score.has_table()) {
            gradients.score_table.template data<T>()[row.entry[n]] += d_score * row.by_entry[n];
          }
          const T d_product = d_score * row.slope[n] * scale;
          for (int64_t d = 0; d < p.size; ++d) {
            d_q(b, h, i, d) += d_product * attention.k(b, g, j, d);
            d_k(b, g, j, d) += d_product * attention.q(b, h, i, d);
          }
        }
      }
    }
  }
  return gradients;
}

}  // namespace

AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionOptions& options) {
  return query.defined() && query.dtype() == DType::f64 ? forward<double>(query, key, value, options)
                                                        : forward<float>(query, key, value, options);
}

AttentionGradients attention_backward(const Tensor& d_output, const Tensor& query, const Tensor& key,
                                      const Tensor& value, const AttentionOptions& options) {
  return query.defined() && query.dtype() == DType::f64 ? backward<double>(d_output, query, key, value, options)
                                                        : backward<float>(d_output, query, key, value, options);
}

}  // namespace heed::reference
