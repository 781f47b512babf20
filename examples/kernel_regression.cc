// Attention before the Transformer: kernel regression (Nadaraya and Watson, 1964).
// Run: make examples && build/release/examples/kernel_regression
//
// out(q) = sum_i alpha(q, k_i) v_i / sum_j alpha(q, k_j). The keys and values are 40 noisy points of y = 2 sin(x) + x.
// The queries are the places where y is predicted. The kernel alpha says how near a key is. For each kernel a picture
// of the attention weights is written: kernel-constant.svg and so on. After "Dive into Deep Learning", section 11.2.
//
// Prints:
//   kernel         mean squared error
//   constant       0.8433
//   boxcar         0.1116
//   epanechnikov   0.0459
//   gaussian       0.2972
//   parabola       0.0568
#include <heed/heed.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

using namespace heed;

namespace {

constexpr int64_t kPoints = 40, kQueries = 50;

float truth(float x) { return 2.0f * std::sin(x) + x; }

}  // namespace

int main() {
  nn::Initializer random(1);
  const Tensor noise = random.normal({kPoints}, 0.5f);
  const Tensor keys = Tensor::zeros({kPoints, 1}), values = Tensor::zeros({kPoints, 1}),
               queries = Tensor::zeros({kQueries, 1});
  for (int64_t i = 0; i < kPoints; ++i) {
    const float x = 5.0f * static_cast<float>(i) / static_cast<float>(kPoints - 1);
    keys.data<float>()[i] = x;
    values.data<float>()[i] = truth(x) + noise.data<float>()[i];
  }
  std::vector<std::string> rows, columns;
  for (int64_t i = 0; i < kQueries; ++i) {
    queries.data<float>()[i] = 5.0f * static_cast<float>(i) / static_cast<float>(kQueries - 1);
    rows.push_back(i % 10 == 0 ? "x=" + std::to_string(i / 10) : "");
  }
  columns.resize(static_cast<size_t>(kPoints));

  struct Named {
    const char* name;
    alpha::Kernel alpha;
  };
  const std::vector<Named> kernels = {
      {"constant", [](std::span<const float>, std::span<const float>) { return 1.0; }},
      {"boxcar", alpha::boxcar(1.0f)},
      {"epanechnikov", alpha::epanechnikov(1.0f)},
      {"gaussian", alpha::gaussian(1.0f)},
      // A kernel of your own is any function of a query and a key that is never negative.
      {"parabola",
       [](std::span<const float> q, std::span<const float> k) {
         const double distance = static_cast<double>(q[0]) - static_cast<double>(k[0]);
         return std::max(0.0, 1.0 - distance * distance);
       }},
  };
  std::printf("kernel         mean squared error\n");
  for (const auto& [name, alpha] : kernels) {
    const PoolingResult result = attention_pooling(queries, keys, values, alpha);
    double error = 0;
    for (int64_t i = 0; i < kQueries; ++i) {
      const double difference =
          static_cast<double>(result.output.data<float>()[i]) - static_cast<double>(truth(queries.data<float>()[i]));
      error += difference * difference / kQueries;
    }
    std::printf("%-14s %.4f\n", name, error);
    io::write_file_atomically(
        std::string("kernel-") + name + ".svg",
        inspect::to_svg(result.weights, rows, columns, std::string("attention of the ") + name + " kernel"));
  }
}
