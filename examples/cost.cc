// What a Transformer costs: parameters and operations, known before anything runs.
// Run: make examples && build/release/examples/cost
//
// A multiplication with its addition counts as two operations (FLOP). The batch has 25 sentences of 40 tokens on each
// side, and both languages share one vocabulary of 37,000 tokens. `heed info MODEL` prints the cost of a model folder.
//
// Prints:
//   model    parameters   forward pass   training step
//   tiny          6.1 M     12.3 GFLOP      37.0 GFLOP
//   small        15.0 M     30.3 GFLOP      91.0 GFLOP
//   base         63.1 M    127.4 GFLOP     382.3 GFLOP
//   big         214.2 M    431.0 GFLOP    1293.1 GFLOP
//   heads    forward pass of the base model
//   1                        127.4 GFLOP
//   8                        127.4 GFLOP
//   64                       127.4 GFLOP
//   multi-head attention alone, E = 512, one sentence of 512 tokens: 1.61 GFLOP
//   one layer of the base model
//   encoder   3.15 M   attention  1.05 M (33 %)   feed-forward  2.10 M (67 %)
//   decoder   4.20 M   attention  2.10 M (50 %)   feed-forward  2.10 M (50 %)
#include <heed/heed.h>

#include <cstdio>

using namespace heed;

namespace {

double millions(int64_t n) { return static_cast<double>(n) / 1e6; }
double billions(int64_t n) { return static_cast<double>(n) / 1e9; }

models::Config preset(const char* name) {
  models::Config config = models::preset(name);
  config.source_vocabulary = config.target_vocabulary = 37000;
  config.share_embeddings = true;
  return config;
}

void print_layer(const char* name, int64_t attention, int64_t feed_forward, int64_t norms) {
  const double total = static_cast<double>(attention + feed_forward + norms) / 100;
  std::printf("%-8s %5.2f M   attention %5.2f M (%.0f %%)   feed-forward %5.2f M (%.0f %%)\n", name, total / 1e4,
              millions(attention), static_cast<double>(attention) / total, millions(feed_forward),
              static_cast<double>(feed_forward) / total);
}

}  // namespace

int main() {
  std::printf("model    parameters   forward pass   training step\n");
  for (const char* name : {"tiny", "small", "base", "big"}) {
    const models::Cost cost = models::cost(preset(name), 25, 40, 40);
    std::printf("%-8s %8.1f M %8.1f GFLOP  %8.1f GFLOP\n", name, millions(cost.parameters),
                billions(cost.forward_flops), billions(cost.training_flops));
  }

  models::Config config = preset("base");
  std::printf("heads    forward pass of the base model\n");
  for (const int64_t heads : {1, 8, 64}) {
    config.heads = heads;
    std::printf("%-8lld %21.1f GFLOP\n", static_cast<long long>(heads),
                billions(models::cost(config, 25, 40, 40).forward_flops));
  }
  std::printf("multi-head attention alone, E = 512, one sentence of 512 tokens: %.2f GFLOP\n",
              billions(models::multi_head_attention_flops(1, 512, 512)));

  nn::Initializer random(1);
  const int64_t attention = nn::MultiHeadAttention({.width = 512, .heads = 8}, random).parameter_count();
  const int64_t feed_forward = nn::FeedForward({.width = 512, .inner = 2048}, random).parameter_count();
  const int64_t norm = nn::Norm(nn::NormKind::layer_norm, 512, 1e-5f, true).parameter_count();
  std::printf("one layer of the base model\n");
  print_layer("encoder", attention, feed_forward, 2 * norm);
  print_layer("decoder", 2 * attention, feed_forward, 3 * norm);
}
