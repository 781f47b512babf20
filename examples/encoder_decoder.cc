// The original Transformer: it is built, trained for a few seconds to reverse its input, and then used.
// Run: make examples && build/release/examples/encoder_decoder
//
// To generate, the encoder runs once. The decoder starts with <s>, takes the most probable token, appends it, and stops
// at </s> or at the length limit. Token numbers: 0 <pad>, 1 <s>, 2 </s>, 3 <unk>, and the digits from 4.
//
// Prints:
//   parameters: 95520
//   loss before training: about ln 14 = 2.64: yes
//   loss after 400 updates below 0.1: yes
//   reverse of 3 1 4 1 5: 5 1 4 1 3
//   reverse of 2 7 1 8: 8 1 7 2
#include <heed/heed.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

using namespace heed;

namespace {

constexpr int32_t kBegin = 1, kEnd = 2, kFirstDigit = 4;

struct Batch {
  text::Padded source, input, output;  // the decoder reads <s> y and learns to say y </s>
};

Batch reversal_batch(std::mt19937& random) {
  std::vector<text::Ids> source, input, output;
  for (int i = 0; i < 64; ++i) {
    source.emplace_back(3 + random() % 4);
    for (int32_t& id : source.back()) id = kFirstDigit + static_cast<int32_t>(random() % 10);
    const text::Ids reversed(source.back().rbegin(), source.back().rend());
    source.back().push_back(kEnd);
    input.push_back(reversed);
    input.back().insert(input.back().begin(), kBegin);
    output.push_back(reversed);
    output.back().push_back(kEnd);
  }
  return {text::pad(source, 0), text::pad(input, 0), text::pad(output, 0)};
}

std::vector<int32_t> generate_greedily(const models::Transformer& model, text::Ids source, int64_t max_length) {
  const NoGradScope no_grad;
  source.push_back(kEnd);
  const text::Padded padded = text::pad(std::vector<text::Ids>{source}, 0);
  const Value memory = model.encode(padded.ids, padded.lengths);  // once
  text::Ids sequence = {kBegin};
  for (int64_t t = 0; t < max_length; ++t) {
    const Tensor logits =
        model.decode(text::pad(std::vector<text::Ids>{sequence}, 0).ids, memory, padded.lengths).data();
    const Tensor last = logits.select(1, logits.size(1) - 1).contiguous();  // (1, V)
    const float* scores = last.data<float>();
    const auto best = static_cast<int32_t>(std::max_element(scores, scores + last.numel()) - scores);
    if (best == kEnd) break;
    sequence.push_back(best);
  }
  return {sequence.begin() + 1, sequence.end()};  // without <s>
}

std::string digits(const text::Ids& ids) {
  std::string text;
  for (const int32_t id : ids) text += " " + std::to_string(id - kFirstDigit);
  return text;
}

}  // namespace

int main() {
  models::Config config = models::preset("tiny");
  config.source_vocabulary = config.target_vocabulary = kFirstDigit + 10;
  config.share_embeddings = true;
  config.encoder_layers = config.decoder_layers = 2;
  config.width = 48, config.feed_forward = 96, config.dropout = 0;
  const models::Transformer model(config, 3);
  std::printf("parameters: %lld\n", static_cast<long long>(model.parameter_count()));

  std::mt19937 random(1);
  train::Adam adam(model.named_parameters(), {});
  double loss = 0;
  for (int update = 1; update <= 400; ++update) {
    const TrainingScope training(1, static_cast<uint64_t>(update));
    const Batch batch = reversal_batch(random);
    const Value logits = model.forward(batch.source.ids, batch.source.lengths, batch.input.ids);
    const Value error = cross_entropy(logits, batch.output.ids, {.ignored_id = 0});
    loss = static_cast<double>(error.item());
    const bool chance = std::abs(loss - std::log(14)) < 1;
    if (update == 1) std::printf("loss before training: about ln 14 = 2.64: %s\n", chance ? "yes" : "no");
    error.backward();
    adam.step(3e-3f * std::min(1.0f, static_cast<float>(update) / 50));
  }
  std::printf("loss after 400 updates below 0.1: %s\n", loss < 0.1 ? "yes" : "no");
  for (const text::Ids& source : {text::Ids{7, 5, 8, 5, 9}, text::Ids{6, 11, 5, 12}})
    std::printf("reverse of%s:%s\n", digits(source).c_str(), digits(generate_greedily(model, source, 10)).c_str());
}
