#include "train/scores.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "heed/error.h"

namespace heed::train {

namespace {

struct LossOfRow {
  double loss = 0, gradient = 0;
};

double probability_of(double logit) { return 1 / (1 + std::exp(-logit)); }

LossOfRow loss_of_row(double x, double score, ScoreLoss loss) {
  if (loss == ScoreLoss::squared_error) return {.loss = (x - score) * (x - score), .gradient = 2 * (x - score)};
  const double probability = probability_of(x);
  return {.loss = std::max(x, 0.0) - x * score + std::log1p(std::exp(-std::abs(x))), .gradient = probability - score};
}

// 1, 2, ... in the order of the values.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double mean = static_cast<double>(begin + 1 + end) / 2;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = mean;
  }
  return ranks;
}

double pearson_of(std::span<const double> x, std::span<const double> y) {
  const auto mean_of = [](std::span<const double> values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  if (x.empty()) return 0;
  const double mean_x = mean_of(x), mean_y = mean_of(y);
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x, dy = y[i] - mean_y;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx) / std::sqrt(yy) : 0.0;
}

}  // namespace

Value score_loss(const Value& predicted, const Tensor& scores, ScoreLoss loss) {
  const Tensor x = predicted.data().contiguous(), wanted = scores.contiguous();
  require(x.shape() == wanted.shape() && x.rank() == 1, "score_loss", "a score for each of ", x.shape(),
          " predicted; found ", wanted.shape());
  const Tensor gradients = Tensor::empty(x.shape());
  double sum = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const LossOfRow row =
        loss_of_row(static_cast<double>(x.data<float>()[i]), static_cast<double>(wanted.data<float>()[i]), loss);
    sum += row.loss;
    gradients.data<float>()[i] = static_cast<float>(row.gradient);
  }
  return Value::record(Tensor::full({}, static_cast<float>(sum)), {predicted}, [gradients](const Tensor& d_loss) {
    const Tensor d = Tensor::empty(gradients.shape());
    const float scale = *d_loss.data<float>();
    for (int64_t i = 0; i < d.numel(); ++i) d.data<float>()[i] = scale * gradients.data<float>()[i];
    return std::vector<Tensor>{d};
  });
}

Tensor scores_from(const Tensor& predicted, ScoreLoss loss) {
  if (loss == ScoreLoss::squared_error) return predicted;
  const Tensor logits = predicted.contiguous(), scores = Tensor::empty(logits.shape());
  for (int64_t i = 0; i < logits.numel(); ++i) {
    scores.data<float>()[i] = static_cast<float>(probability_of(static_cast<double>(logits.data<float>()[i])));
  }
  return scores;
}

Value products_of_rows(const Value& x, const Value& y) {
  const Tensor a = x.data().contiguous(), b = y.data().contiguous();
  require(a.rank() == 2 && a.shape() == b.shape(), "products_of_rows", "two matrices of one shape; found ", a.shape(),
          " and ", b.shape());
  const int64_t rows = a.size(0), width = a.size(1);
  const Tensor products = Tensor::empty({rows});
  for (int64_t i = 0; i < rows; ++i) {
    const float *const p = a.data<float>() + i * width, *const q = b.data<float>() + i * width;
    double sum = 0;
    for (int64_t e = 0; e < width; ++e) sum += static_cast<double>(p[e]) * static_cast<double>(q[e]);
    products.data<float>()[i] = static_cast<float>(sum);
  }
  return Value::record(products, {x, y}, [=](const Tensor& d_products) {
    const auto times = [&](const Tensor& other) {
      const Tensor d = Tensor::empty(other.shape());
      for (int64_t i = 0; i < rows * width; ++i) {
        d.data<float>()[i] = d_products.data<float>()[i / width] * other.data<float>()[i];
      }
      return d;
    };
    return std::vector<Tensor>{times(b), times(a)};
  });
}

ScoreRange range_of(ScoreLoss loss) {
  if (loss == ScoreLoss::cross_entropy) {
    return {.low = 0,
            .high = 1,
            .reason = "as scores that are probabilities need it (loss = \"squared_error\" trains on any number)"};
  }
  constexpr auto kMost = static_cast<double>(std::numeric_limits<float>::max());
  return {.low = -kMost, .high = kMost, .reason = "as f32 holds it"};
}

float read_score(std::string_view text, const ScoreRange& range, const std::string& place) {
  constexpr const char* kName = "train";
  double score = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), score);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && std::isfinite(score);
  require(is_number, kName, place, ": a number as the score; found \"", text, "\"");
  require(score >= range.low && score <= range.high, kName, place, ": a score from ", range.low, " to ", range.high,
          ", ", range.reason, "; found ", text);
  return static_cast<float>(score);
}

Correlation correlation_of(std::span<const float> x, std::span<const float> y) {
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(x, finite) || !std::ranges::all_of(y, finite)) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // ranks need an order
    return {.pearson = kNone, .spearman = kNone};
  }
  const std::vector<double> a(x.begin(), x.end()), b(y.begin(), y.end());
  return {.pearson = pearson_of(a, b), .spearman = pearson_of(ranks_of(a), ranks_of(b))};
}

}  // namespace heed::train
