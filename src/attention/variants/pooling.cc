// Attention pooling: a weighted mean of values, the weights given by any kernel of query and key.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/threads.h"
#include "heed/attention_variants.h"
#include "heed/error.h"

namespace heed {
namespace {

void require_same_size(std::string_view function, std::span<const float> query, std::span<const float> key) {
  require(query.size() == key.size(), function, "a query and a key of one size; found ", query.size(), " and ",
          key.size());
}

double distance(std::string_view function, std::span<const float> a, std::span<const float> b) {
  require_same_size(function, a, b);
  double squares = 0;
  for (size_t d = 0; d < a.size(); ++d) {
    const double difference = static_cast<double>(a[d]) - static_cast<double>(b[d]);
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

void require_width(std::string_view function, float width) {
  require(std::isfinite(width) && width > 0, function, "a width above 0; found ", width);
}

// rows of `weight` (E, D) times x (D).
std::vector<double> project(const Tensor& weight, std::span<const float> x) {
  const int64_t rows = weight.size(0), columns = weight.size(1);
  require(columns == static_cast<int64_t>(x.size()), "alpha::additive", "vectors of ", columns, " numbers; found ",
          x.size());
  const float* const w = weight.data<float>();
  std::vector<double> result(static_cast<size_t>(rows));
  for (int64_t e = 0; e < rows; ++e) {
    for (int64_t d = 0; d < columns; ++d) {
      result[static_cast<size_t>(e)] +=
          static_cast<double>(w[e * columns + d]) * static_cast<double>(x[static_cast<size_t>(d)]);
    }
  }
  return result;
}

// Of numbers less the largest one. Rows of -inf alone become 0.
void exponentials(std::vector<double>& row) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const double x : row) largest = std::max(largest, x);
  const double origin = std::isinf(largest) && largest < 0 ? 0 : largest;
  for (double& x : row) x = std::exp(x - origin);
}

}  // namespace

namespace alpha {

Kernel Kernel::of_log(Function log_alpha) {
  Kernel kernel;
  kernel.function_ = std::move(log_alpha);
  kernel.is_log_ = true;
  return kernel;
}

double Kernel::operator()(std::span<const float> query, std::span<const float> key) const {
  require(function_ != nullptr, "alpha::Kernel", "a function; found none");
  const double value = function_(query, key);
  return is_log_ ? std::exp(value) : value;
}

Kernel gaussian(float width) {
  require_width("alpha::gaussian", width);
  return Kernel::of_log([width](std::span<const float> query, std::span<const float> key) {
    const double u = distance("alpha::gaussian", query, key) / static_cast<double>(width);
    return -0.5 * u * u;
  });
}

Kernel boxcar(float width) {
  require_width("alpha::boxcar", width);
  return [width](std::span<const float> query, std::span<const float> key) {
    return distance("alpha::boxcar", query, key) < static_cast<double>(width) ? 1.0 : 0.0;
  };
}

Kernel epanechnikov(float width) {
  require_width("alpha::epanechnikov", width);
  return [width](std::span<const float> query, std::span<const float> key) {
    return std::max(0.0, 1.0 - distance("alpha::epanechnikov", query, key) / static_cast<double>(width));
  };
}

Kernel dot_product(float scale) {
  require(std::isfinite(scale), "alpha::dot_product", "a finite scale; found ", scale);
  return Kernel::of_log([scale](std::span<const float> query, std::span<const float> key) {
    require_same_size("alpha::dot_product", query, key);
    double product = 0;
    for (size_t d = 0; d < query.size(); ++d) product += static_cast<double>(query[d]) * static_cast<double>(key[d]);
    return static_cast<double>(scale) * product;
  });
}

Kernel additive(const Tensor& query_weight, const Tensor& key_weight, const Tensor& w) {
  require(query_weight.rank() == 2 && key_weight.rank() == 2 && w.rank() == 1 && query_weight.size(0) == w.size(0) &&
              key_weight.size(0) == w.size(0),
          "alpha::additive", "query_weight (E, D), key_weight (E, D) and w (E); found ", query_weight.shape(), ", ",
          key_weight.shape(), " and ", w.shape());
  const Tensor wq = query_weight.to(DType::f32).contiguous(), wk = key_weight.to(DType::f32).contiguous();
  const Tensor ws = w.to(DType::f32).contiguous();
  return Kernel::of_log([wq, wk, ws](std::span<const float> query, std::span<const float> key) {
    const std::vector<double> a = project(wq, query), b = project(wk, key);
    double score = 0;
    for (size_t e = 0; e < a.size(); ++e) score += static_cast<double>(ws.data<float>()[e]) * std::tanh(a[e] + b[e]);
    return score;
  });
}

}  // namespace alpha

PoolingResult attention_pooling(const Tensor& query, const Tensor& key, const Tensor& value,
                                const alpha::Kernel& alpha) {
  constexpr std::string_view kName = "attention_pooling";
  require(query.defined() && key.defined() && value.defined(), kName,
          "query, key and value; found an undefined tensor");
  require(query.rank() == 2 && key.rank() == 2 && value.rank() == 2 && key.size(0) == value.size(0), kName,
          "query (L, D), key (S, D) and value (S, Dv); found ", query.shape(), ", ", key.shape(), " and ",
          value.shape());
  const alpha::Kernel::Function& function = alpha.function();
  require(function != nullptr, kName, "a kernel; found none");
  const Tensor q = query.to(DType::f32).contiguous(), k = key.to(DType::f32).contiguous();
  const Tensor v = value.to(DType::f32).contiguous();
  const int64_t queries = q.size(0), keys = k.size(0), value_size = v.size(1);
  PoolingResult result{Tensor::zeros({queries, value_size}), Tensor::zeros({queries, keys})};

  parallel_for(queries, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> row(static_cast<size_t>(keys));
    for (int64_t i = begin; i < end; ++i) {
      const std::span<const float> q_i(q.data<float>() + i * q.size(1), static_cast<size_t>(q.size(1)));
      for (int64_t j = 0; j < keys; ++j) {
        const std::span<const float> k_j(k.data<float>() + j * k.size(1), static_cast<size_t>(k.size(1)));
        const double a = function(q_i, k_j);
        require(alpha.is_log() || !(a < 0), kName, "a kernel that is 0 or more; found ", a, " for query ", i,
                " and key ", j);
        row[static_cast<size_t>(j)] = a;
      }
      if (alpha.is_log()) exponentials(row);
      const double sum = std::accumulate(row.begin(), row.end(), 0.0);
      require(!std::isinf(sum), kName, "a kernel whose sum over the keys is finite; found an infinity for query ", i);
      if (sum == 0) continue;  // no key is near enough: weights and output stay 0
      std::vector<double> output(static_cast<size_t>(value_size));
      for (int64_t j = 0; j < keys; ++j) {
        const double weight = row[static_cast<size_t>(j)] / sum;
        result.weights.data<float>()[i * keys + j] = static_cast<float>(weight);
        for (int64_t d = 0; d < value_size; ++d) {
          output[static_cast<size_t>(d)] += weight * static_cast<double>(v.data<float>()[j * value_size + d]);
        }
      }
      for (int64_t d = 0; d < value_size; ++d) {
        result.output.data<float>()[i * value_size + d] = static_cast<float>(output[static_cast<size_t>(d)]);
      }
    }
  });
  return result;
}

}  // namespace heed
