// Times training steps of the two models that bench/compare/training.py also runs in PyTorch:
//   gpt          6 layers, 6 heads, E 384, context 256, batch 12, vocabulary 65, no biases, tied output
//   transformer  3+3 layers, E 256, 8 heads, F 1024, 64 pairs of 16+16 tokens, vocabulary 8,000, separate tables
#include "bench/training.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "base/philox.h"
#include "bench/matmul.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/models.h"
#include "heed/train.h"

namespace heed::bench {
namespace {

Tensor random_ids(const Shape& shape, uint64_t stream, int32_t first, int32_t count) {
  Tensor ids = Tensor::empty(shape, DType::i32);
  for (int64_t i = 0; i < ids.numel(); ++i) {
    const uint32_t bits = philox(1, stream, static_cast<uint64_t>(i))[0];
    ids.data<int32_t>()[i] = first + static_cast<int32_t>(bits % static_cast<uint32_t>(count));
  }
  return ids;
}

struct TrainingCase {
  std::string name;
  int64_t tokens = 0;  // target tokens a step
  std::unique_ptr<models::Model> model;
  std::function<Value()> loss;
};

TrainingCase gpt_case() {
  models::Config config;
  config.architecture = models::Architecture::decoder_only;
  config.target_vocabulary = 65;
  config.encoder_layers = 0;
  config.decoder_layers = 6;
  config.heads = 6;
  config.width = 384;
  config.feed_forward = 4 * 384;
  config.activation = Activation::gelu;
  config.norm_placement = models::NormPlacement::pre;
  config.final_norm = true;
  config.bias = false;
  config.positions = models::Positions::learned;
  config.max_length = 256;
  config.scale_embedding = false;
  config.dropout = 0;
  auto model = std::make_unique<models::Gpt>(config, 1);
  const models::Gpt& gpt = *model;
  const Tensor input = random_ids({12, 256}, 1, 0, 65), target = random_ids({12, 256}, 2, 0, 65);
  return {"gpt", 12 * 256, std::move(model), [&gpt, input, target] { return gpt.loss(input, target); }};
}

TrainingCase transformer_case() {
  models::Config config = models::preset("small");
  config.source_vocabulary = config.target_vocabulary = 8000;
  config.tie_output = false;
  config.dropout = 0;
  auto model = std::make_unique<models::Transformer>(config, 1);
  const models::Transformer& transformer = *model;
  const Tensor source = random_ids({64, 16}, 1, 4, 7996), input = random_ids({64, 16}, 2, 4, 7996),
               target = random_ids({64, 16}, 3, 4, 7996), lengths = Tensor::zeros({64}, DType::i32);
  std::fill_n(lengths.data<int32_t>(), 64, 16);
  return {"transformer", 64 * 16, std::move(model), [&transformer, source, input, target, lengths] {
            return transformer.loss(source, lengths, input, target, {.label_smoothing = 0.1f});
          }};
}

// The median seconds of one step.
double time_steps(const TrainingCase& bench, int steps) {
  train::Adam adam(bench.model->named_parameters(), {.weight_decay = 0.1f});
  std::vector<double> seconds;
  for (int step = -2; step < steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    const TrainingScope training(1, static_cast<uint64_t>(step + 3));
    bench.loss().backward();
    adam.step(1e-3f);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (step >= 0) seconds.push_back(elapsed.count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

std::string measure_training(const TrainingBench& options) {
  require(options.model == "all" || options.model == "gpt" || options.model == "transformer", "bench",
          "model gpt, transformer or all; found \"", options.model, "\"");
  const ops::MatmulPrecisionScope scope(usable_precision(options.precision));
  require(options.steps >= 1, "bench", "at least one step; found ", options.steps);
  std::string table = "model         parameters   s/step   target tokens/s   (" + std::string(to_string(active_isa())) +
                      ", " + options.precision + ", " + std::to_string(num_threads()) + " threads)\n";
  std::string json = "[";
  for (const auto& make : {gpt_case, transformer_case}) {
    const TrainingCase bench = make();
    if (options.model != "all" && options.model != bench.name) continue;
    const double seconds = time_steps(bench, options.steps);
    const double rate = static_cast<double>(bench.tokens) / seconds;
    const auto parameters = static_cast<long long>(bench.model->parameter_count());
    char line[256];
    std::snprintf(line, sizeof line, "%-12s %11lld %8.3f %17.0f\n", bench.name.c_str(), parameters, seconds, rate);
    table += line;
    std::snprintf(line, sizeof line,
                  R"(%s{"model": "%s", "parameters": %lld, "seconds": %.6f, "tokens_per_second": %.1f})",
                  json.size() > 1 ? ", " : "", bench.name.c_str(), parameters, seconds, rate);
    json += line;
  }
  return options.json ? json + "]\n" : table;
}

}  // namespace heed::bench
