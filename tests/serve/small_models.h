// Small models in folders of their own, for what is served.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "heed/models.h"
#include "heed/text.h"

namespace heed::serve {

inline models::Config small_config(models::Architecture architecture, int64_t vocabulary) {
  models::Config config;
  config.architecture = architecture;
  config.source_vocabulary = architecture == models::Architecture::decoder_only ? 0 : vocabulary;
  config.target_vocabulary = architecture == models::Architecture::encoder_only ? 0 : vocabulary;
  config.encoder_layers = config.decoder_layers = 2;
  config.width = 16;
  config.heads = 4;
  config.feed_forward = 24;
  config.max_length = 700;
  config.dropout = 0;
  if (architecture == models::Architecture::decoder_only) config.positions = models::Positions::alibi;
  return config;
}

// Writes a model with random weights and a tokenizer of characters. `change` changes the model's sizes.
inline void write_model(const std::filesystem::path& folder, models::Architecture architecture, uint64_t seed = 1,
                        const std::function<void(models::Config&)>& change = {}) {
  const std::vector<std::string> lines = {"abcdefgh ", "ABC."};
  const auto tokenizer = text::train_characters(lines);
  std::filesystem::create_directories(folder);
  models::Config config = small_config(architecture, tokenizer->vocabulary());
  if (change) change(config);
  models::save(*models::create(config, seed), folder);
  if (architecture != models::Architecture::decoder_only) tokenizer->save(folder, text::Side::source);
  if (architecture != models::Architecture::encoder_only) tokenizer->save(folder, text::Side::target);
}

}  // namespace heed::serve
