// What an Encoder has besides its model and its tokenizer.
#pragma once

#include <filesystem>
#include <string>

#include "heed/pipelines.h"
#include "models/sentence_settings.h"
#include "pipelines/encoder_reader.h"
#include "pipelines/sentence_modules.h"
#include "pipelines/sequences.h"

namespace heed {

struct Encoder::Parts {
  std::filesystem::path folder;
  pipelines::EncoderReader reader;
  pipelines::SentenceModules modules;
  models::SentenceSettings settings;
  models::Scores scores;

  [[nodiscard]] pipelines::Sequence sequence_of(const text::Tokens& tokens) const;
  // What stands in front of each text.
  [[nodiscard]] std::string prompt(const EncoderOptions& options, const char* function) const;
  // Throw Error unless the model has this head, or that which finds answers.
  void require_head(models::Head head, const char* function) const;
  void require_answers(const char* function) const;
};

}  // namespace heed
