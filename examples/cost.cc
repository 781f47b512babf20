// What a Transformer costs: parameters, operations and memory, before anything is run.
//
// Multi-head attention needs 4 B E L (2 E + L) FLOPs: 8 B L E^2 for the four projections and 4 B L^2 E for the two
// products, whatever the number of heads (a multiply-add counts two). `heed info MODEL` prints the same for a folder.
//
// Prints:
//   attention of the base model, 1 sentence of 512: 1.61 GFLOP; with 1 or 64 heads: the same
//   preset       parameters   forward   training   (37,000 shared tokens, 25 sentences of 40 + 40)
//   tiny              6.1 M     12.3       37.0 GFLOP
//   small            15.0 M     30.3       91.0 GFLOP
//   base             63.1 M    127.4      382.3 GFLOP
//   big             214.2 M    431.0     1293.1 GFLOP
#include <heed/heed.h>

#include <cstdio>

using namespace heed;

int main() {
  std::printf("attention of the base model, 1 sentence of 512: %.2f GFLOP; with 1 or 64 heads: the same\n",
              static_cast<double>(models::multi_head_attention_flops(1, 512, 512)) / 1e9);
  std::printf("preset       parameters   forward   training   (37,000 shared tokens, 25 sentences of 40 + 40)\n");
  for (const char* name : {"tiny", "small", "base", "big"}) {
    models::Config config = models::preset(name);
    config.source_vocabulary = config.target_vocabulary = 37000;
    config.share_embeddings = true;
    const models::Cost cost = models::cost(config, 25, 40, 40);
    std::printf("%-12s %8.1f M  %7.1f   %8.1f GFLOP\n", name, static_cast<double>(cost.parameters) / 1e6,
                static_cast<double>(cost.forward_flops) / 1e9, static_cast<double>(cost.training_flops) / 1e9);
  }
}
