#include "pipelines/sentence_settings.h"

#include "heed/error.h"
#include "models/families/keys.h"
#include "pipelines/json_file.h"

namespace heed::pipelines {
namespace {

using models::Keys;
constexpr const char* kSettingsReader = "Encoder::load";

void read_prompts(Keys& keys, SentenceSettings& settings) {
  const io::Json& prompts = keys.value("prompts");
  if (!prompts.is_null() && !prompts.is_object()) keys.refuse("prompts", "an object of texts");
  for (const auto& [name, text] : prompts.items()) {
    if (!text.is_string()) keys.refuse("prompts", "an object of texts");
    settings.prompts[name] = text.get<std::string>();
  }
  settings.default_prompt = keys.word("default_prompt_name", "");
  if (!settings.default_prompt.empty() && !settings.prompts.contains(settings.default_prompt)) {
    keys.refuse("default_prompt_name", "one of the prompts");
  }
}

}  // namespace

SentenceSettings read_sentence_settings(const std::filesystem::path& folder, const std::filesystem::path& encoder) {
  SentenceSettings settings;
  // Each class of models once had a name of its own for this file.
  const auto encoder_file = read_json_if_there(
      encoder,
      {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
       "sentence_camembert_config.json", "sentence_xlm-roberta_config.json"},
      kSettingsReader);
  if (encoder_file) {
    Keys keys(encoder_file->value, encoder_file->file.string());
    settings.longest = keys.whole("max_seq_length", 0);
    if (settings.longest < 0 || (settings.longest == 0 && keys.has("max_seq_length"))) {
      keys.refuse("max_seq_length", "1 or more");
    }
    settings.lowercase = keys.flag("do_lower_case", false);
    keys.expect("transformer_task", {std::string_view("feature-extraction")});
  }
  if (const auto file = read_json_if_there(folder, {"config_sentence_transformers.json"}, kSettingsReader)) {
    Keys keys(file->value, file->file.string());
    read_prompts(keys, settings);
  }
  return settings;
}

Scores read_scores(const std::filesystem::path& folder, const models::Config& config) {
  if (config.labels.size() == 1) return config.plain_score ? Scores::raw : Scores::independent;
  const std::filesystem::path file = folder / "config.json";
  const io::Json object = read_json(file, kSettingsReader);
  Keys keys(object, file.string());
  return keys.word("problem_type", "") == "multi_label_classification" ? Scores::independent : Scores::probabilities;
}

}  // namespace heed::pipelines
