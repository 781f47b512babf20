// Why attention divides the scores by sqrt(d_k): measured for d_k from 4 to 1024.
// Run: make examples && build/release/examples/scale
//
// Entropy: of the 64 weights of a query, in nats, at most ln 64 = 4.159. Gradient: the mean of p (1 - p) over the
// weights p, which is the diagonal of the softmax's derivative. The picture scale.svg shows the weights of one query
// for each d_k, without the scale above and with the scale below.
//
// Prints:
//    d_k   var(q.k)   entropy  gradient   | scaled: variance  entropy  gradient
//      4        4.7     2.683   0.01305   |            1.174    3.642   0.01494
//     16       15.5     1.433   0.00903   |            0.967    3.704   0.01503
//     64       64.0     0.540   0.00421   |            1.001    3.681   0.01501
//    256      255.6     0.260   0.00226   |            0.998    3.677   0.01500
//   1024     1016.9     0.137   0.00124   |            0.993    3.688   0.01502
#include <heed/heed.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

using namespace heed;

namespace {

constexpr int64_t kQueries = 512, kKeys = 64;

struct Measured {
  double entropy = 0, gradient = 0;
};

Measured measure(const Tensor& weights) {
  Measured m;
  const float* w = weights.data<float>();
  for (int64_t i = 0; i < weights.numel(); ++i) {
    const double p = static_cast<double>(w[i]);
    if (p > 0) m.entropy -= p * std::log(p);
    m.gradient += p * (1 - p);
  }
  return {m.entropy / kQueries, m.gradient / static_cast<double>(weights.numel())};
}

}  // namespace

int main() {
  std::vector<std::string> rows, columns(static_cast<size_t>(kKeys));
  Tensor picture = Tensor::zeros({10, kKeys});
  std::printf(" d_k   var(q.k)   entropy  gradient   | scaled: variance  entropy  gradient\n");
  for (int64_t d = 4, line = 0; d <= 1024; d *= 4, ++line) {
    nn::Initializer random(static_cast<uint64_t>(d));
    const Tensor q = random.normal({1, 1, kQueries, d}, 1.0f), k = random.normal({1, 1, kKeys, d}, 1.0f);
    const Tensor scores = ops::matmul(q.reshape({kQueries, d}), k.reshape({kKeys, d}), {.transpose_b = true});
    double squares = 0;
    for (int64_t i = 0; i < scores.numel(); ++i) squares += std::pow(static_cast<double>(scores.data<float>()[i]), 2);
    const double variance = squares / static_cast<double>(scores.numel());

    const Tensor plain = attention(q, k, k, {.scale = 1.0f, .want = {.weights = true}}).weights;
    const Tensor scaled = attention(q, k, k, {.want = {.weights = true}}).weights;
    const Measured a = measure(plain), b = measure(scaled);
    std::printf("%4lld %10.1f %9.3f %9.5f   | %16.3f %8.3f %9.5f\n", static_cast<long long>(d), variance, a.entropy,
                a.gradient, variance / static_cast<double>(d), b.entropy, b.gradient);
    picture.select(0, 2 * line).copy_from(plain.reshape({kQueries, kKeys}).select(0, 0));
    picture.select(0, 2 * line + 1).copy_from(scaled.reshape({kQueries, kKeys}).select(0, 0));
    rows.push_back("d=" + std::to_string(d));
    rows.push_back("scaled");
  }
  io::write_file_atomically("scale.svg",
                            inspect::to_svg(picture, rows, columns, "softmax of q.k, and of q.k / sqrt(d)"));
}
