// Transformer: the original encoder-decoder. Vaswani et al. 2017, section 3.1 and figure 1.
#include <algorithm>

#include "heed/error.h"
#include "models/decoder.h"
#include "models/encode_batch.h"
#include "models/encoder.h"
#include "models/output.h"
#include "models/stack.h"
#include "nn/observer.h"

namespace heed::models {

struct Transformer::Parts {
  Parts(const Config& config, nn::Initializer init)
      : encoder(config, config.source_vocabulary, config.encoder_layers, Stack<EncoderLayer>::Sees::all, nullptr, init),
        decoder(config, config.target_vocabulary, config.decoder_layers, Stack<DecoderLayer>::Sees::before,
                config.share_embeddings ? &encoder.embedding() : nullptr, init),
        output(config, decoder.embedding().weight(), init) {}

  Stack<EncoderLayer> encoder;
  Stack<DecoderLayer> decoder;
  Output output;
};

namespace {

// Decoding one step at a time. Row r belongs to source r / (rows / sources).
class CachedDecoder : public Decoder {
 public:
  CachedDecoder(const Stack<DecoderLayer>& decoder, const Output& output, const Value& memory,
                const Tensor& memory_lengths, int64_t copies, const KeyValueCache::Options& options)
      : decoder_(decoder),
        output_(output),
        distance_bias_(decoder.distance_bias()),
        sources_(memory.size(0)),
        rows_(sources_ * copies) {
    KeyValueCache::Options together = options;
    together.heads_together = !distance_bias_.defined();
    for (const auto& layer : decoder.layers()) caches_.push_back(layer->start(memory, memory_lengths, rows_, together));
  }

  Tensor step(const Tensor& tokens) override {
    const NoGradScope no_grad;
    return output_.of_last(states_of(tokens));
  }

  // Who watches the attention is told of all rows together.
  [[nodiscard]] bool steps_some() const override { return nn::active_observer() == nullptr; }

  Tensor step_some(std::span<const int64_t> rows, const Tensor& tokens) override {
    const NoGradScope no_grad;
    return output_.of_last(states_of(rows, tokens));
  }

  void step_by_parts(std::span<const int64_t> rows, const Tensor& tokens, const UseLogits& use) override {
    const NoGradScope no_grad;
    output_.by_parts_of_last(rows.empty() ? states_of(tokens) : states_of(rows, tokens), use);
  }

  std::vector<int32_t> step_greedy(const Tensor& tokens, std::span<const uint8_t> excluded) override {
    const NoGradScope no_grad;
    return output_.largest_of_last(states_of(tokens), excluded);
  }

  void reorder(std::span<const int64_t> rows) override {
    require(!rows.empty(), "Decoder::reorder", "at least one row; found none");
    for (const int64_t row : rows) {
      require(row >= 0 && row < rows_, "Decoder::reorder", "rows below ", rows_, "; found ", row);
      require(stepped_.empty() || stepped_[static_cast<size_t>(row)] != 0, "Decoder::reorder",
              "rows that have taken the step; found row ", row, ", which has not");
    }
    if (!stepped_.empty()) end_step();
    const std::vector<int64_t> sources = sources_of(rows);
    for (auto& cache : caches_) {
      cache.self.reorder(rows);
      cache.memory.reorder(sources);
    }
    sources_ = static_cast<int64_t>(sources.size());
    rows_ = static_cast<int64_t>(rows.size());
  }

  [[nodiscard]] int64_t vocabulary() const override { return output_.vocabulary(); }

 private:
  // Of a step in parts.
  void end_step() {
    ++length_;
    stepped_.clear();
  }

  Value states_of(const Tensor& tokens) {
    require(tokens.defined() && tokens.rank() == 2 && tokens.size(0) == rows_, "Decoder::step", "tokens of ", rows_,
            " rows; found ", tokens.shape());
    require(stepped_.empty(), "Decoder::step", "a reorder() after a step of some rows; found none");
    const Value x = decoder_(
        {.ids = tokens, .first = length_},
        [&](const DecoderLayer& layer, const Value& y, size_t i) { return layer.step(y, caches_[i], distance_bias_); });
    length_ += tokens.size(1);
    return x;
  }

  // Of some rows.
  Value states_of(std::span<const int64_t> rows, const Tensor& tokens) {
    const int64_t copies = rows_ / sources_;
    require(tokens.defined() && tokens.shape() == Shape({std::ssize(rows), 1}) && !rows.empty(), "Decoder::step_some",
            "a token for each of the rows; found ", tokens.shape(), " and ", rows.size(), " rows");
    std::vector<uint8_t> stepped = stepped_;
    stepped.resize(static_cast<size_t>(rows_), 0);
    std::vector<int64_t> sources;
    for (const int64_t row : rows) {
      require(row >= 0 && row < rows_ && stepped[static_cast<size_t>(row)] == 0, "Decoder::step_some", "rows below ",
              rows_, " that have not taken the step; found ", row);
      stepped[static_cast<size_t>(row)] = 1;
      sources.push_back(row / copies);
    }
    stepped_ = std::move(stepped);
    const Value x =
        decoder_({.ids = tokens, .first = length_}, [&](const DecoderLayer& layer, const Value& y, size_t i) {
          return layer.step(y, caches_[i], distance_bias_, rows, sources);
        });
    if (std::ranges::count(stepped_, 0) == 0) end_step();  // it was the last part: no row need be given up
    return x;
  }

  // The sources that the new rows need: one for each group where all groups have one size, as in a beam; else one a
  // row.
  [[nodiscard]] std::vector<int64_t> sources_of(std::span<const int64_t> rows) const {
    const int64_t copies = rows_ / sources_;
    std::vector<int64_t> each, groups, group_sizes;
    for (const int64_t row : rows) {
      each.push_back(row / copies);
      if (groups.empty() || groups.back() != each.back()) {
        groups.push_back(each.back());
        group_sizes.push_back(0);
      }
      ++group_sizes.back();
    }
    for (const int64_t size : group_sizes) {
      if (size != group_sizes.front()) return each;
    }
    return groups;
  }

  const Stack<DecoderLayer>& decoder_;
  const Output& output_;
  Value distance_bias_;
  std::vector<DecoderLayer::Cache> caches_;
  int64_t sources_;
  int64_t rows_;
  int64_t length_ = 0;
  std::vector<uint8_t> stepped_;  // 1: rows that have taken the step that others have not; empty: none has
};

}  // namespace

Transformer::Transformer(const Config& config, uint64_t seed) : Model(config) {
  require(config.architecture == Architecture::encoder_decoder, "Transformer", "architecture encoder_decoder; found ",
          config.architecture);
  parts_ = std::make_unique<Parts>(config, nn::Initializer(seed));
  add_module("encoder", parts_->encoder);
  add_module("decoder", parts_->decoder);
  add_module("output", parts_->output);
  name_paths();
}

Transformer::~Transformer() = default;

Value Transformer::encode(const Tensor& source, const Tensor& source_lengths) const {
  return encode_batch(parts_->encoder, config_, source, source_lengths);
}

namespace {

Value states(const Stack<DecoderLayer>& decoder, const Tensor& target, const Value& memory,
             const Tensor& source_lengths) {
  const AttentionOptions masks = {.key_lengths = source_lengths};
  const nn::Places places{.distance_bias = decoder.distance_bias()};
  return decoder({.ids = target}, [&](const DecoderLayer& layer, const Value& x, size_t) {
    return layer.forward(x, memory, masks, places);
  });
}

}  // namespace

Value Transformer::decode(const Tensor& target, const Value& memory, const Tensor& source_lengths) const {
  return parts_->output(states(parts_->decoder, target, memory, source_lengths));
}

Value Transformer::logits_of(const Value& states) const { return parts_->output(parts_->decoder.finish(states)); }

Value Transformer::loss(const Tensor& source, const Tensor& source_lengths, const Tensor& target,
                        const Tensor& expected, const CrossEntropyOptions& options) const {
  const Value memory = encode(source, source_lengths);
  return parts_->output.loss(states(parts_->decoder, target, memory, source_lengths), expected, options);
}

Value Transformer::forward(const Tensor& source, const Tensor& source_lengths, const Tensor& target) const {
  return decode(target, encode(source, source_lengths), source_lengths);
}

std::unique_ptr<Decoder> Transformer::start(const Tensor& source, const Tensor& source_lengths, int64_t copies,
                                            const KeyValueCache::Options& cache) const {
  require(copies > 0 && source.defined() && source.rank() == 2 && source.size(0) > 0, "Transformer::start",
          "at least one source and one copy; found ", source.shape(), " and ", copies);
  const NoGradScope no_grad;
  const Value memory = encode(source, source_lengths);
  return std::make_unique<CachedDecoder>(parts_->decoder, parts_->output, memory, source_lengths, copies, cache);
}

}  // namespace heed::models
