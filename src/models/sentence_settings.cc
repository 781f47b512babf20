#include "models/sentence_settings.h"

#include <algorithm>

#include "formats/json_file.h"
#include "heed/error.h"
#include "heed/io.h"
#include "models/families/keys.h"
#include "models/sentence_folder.h"

namespace heed::models {
namespace {

constexpr const char* kSettingsReader = "read_sentence_settings";

void read_prompts(Keys& keys, SentenceSettings& settings, bool ranks_pairs) {
  const io::Json& prompts = keys.value("prompts");
  if (!prompts.is_null() && !prompts.is_object()) keys.refuse("prompts", "an object of texts");
  for (const auto& [name, text] : prompts.items()) {
    if (!text.is_string()) keys.refuse("prompts", "an object of texts");
    settings.prompts[name] = text.get<std::string>();
  }
  settings.default_prompt = keys.word("default_prompt_name", "");
  const std::string& usual = settings.default_prompt;
  const bool is_empty = !ranks_pairs && (usual == "query" || usual == "document");  // prompts of every other model
  if (!usual.empty() && !is_empty && !settings.prompts.contains(usual))
    keys.refuse("default_prompt_name", "one of the prompts");
}

// What `false` means: the same as an absent key, or a setting, where the usual value may be true.
enum class Off { says_nothing, is_a_setting };

// Keys that nobody knows may change a vector.
void refuse_others(const Keys& keys, const io::Json& object, std::initializer_list<std::string_view> known,
                   Off meaning = Off::says_nothing) {
  for (const auto& [key, value] : object.items()) {
    const bool off = value == false && meaning == Off::says_nothing;
    const bool says_nothing = value.is_null() || off || (value.is_structured() && value.empty());
    if (says_nothing || std::ranges::count(known, std::string_view(key)) > 0) continue;
    keys.refuse(key, "a key that heed knows (take it out if it changes no vector)");
  }
}

const io::Json kEmpty = io::Json::object();

// An object of the file `keys`; an empty one where the key is absent.
const io::Json& object_of(Keys& keys, std::string_view key) {
  const io::Json& found = keys.value(key);
  if (found.is_null()) return kEmpty;
  if (!found.is_object()) keys.refuse(key, "an object");
  return found;
}

// What sentence-transformers 6 says of the outputs that it takes: here the states of all tokens, or a cross-encoder's
// scores.
void check_outputs(Keys& keys, bool is_cross_encoder) {
  keys.expect("transformer_task",
              {std::string_view(is_cross_encoder ? "sequence-classification" : "feature-extraction")});
  keys.expect("module_output_name", {std::string_view(is_cross_encoder ? "scores" : "token_embeddings")});
  const io::Json& kinds = object_of(keys, "modality_config");
  Keys each(kinds, keys.where() + ", modality_config");
  refuse_others(each, kinds, {"text"});
  const io::Json& text = object_of(each, "text");
  Keys inner(text, each.where() + ", text");
  inner.expect("method", {std::string_view("forward")});
  inner.expect("method_output_name", {std::string_view(is_cross_encoder ? "logits" : "last_hidden_state")});
  refuse_others(inner, text, {"method", "method_output_name"});
}

// Arguments of transformers' from_pretrained(): those that change no result, and the limit of the tokenizer.
void read_arguments(Keys& keys, SentenceSettings& settings) {
  for (const char* const name : {"model_args", "model_kwargs", "config_args", "config_kwargs"}) {
    const io::Json& arguments = object_of(keys, name);
    refuse_others(Keys(arguments, keys.where() + ", " + name), arguments,
                  {"trust_remote_code", "attn_implementation", "torch_dtype", "dtype", "add_pooling_layer",
                   "use_safetensors", "low_cpu_mem_usage", "device_map"});
  }
  for (const char* const name : {"tokenizer_args", "processor_kwargs"}) {
    const io::Json& arguments = object_of(keys, name);
    Keys inner(arguments, keys.where() + ", " + name);
    // As in sentence-transformers, it counts more than max_seq_length.
    const int64_t longest = inner.whole("model_max_length", 0);
    if (longest < 0 || (longest == 0 && inner.has("model_max_length"))) inner.refuse("model_max_length", "1 or more");
    if (longest > 0) settings.longest = longest;
    refuse_others(inner, arguments,
                  {"trust_remote_code", "use_fast", "padding_side", "model_max_length", "clean_up_tokenization_spaces",
                   "local_files_only"},
                  Off::is_a_setting);
  }
}

}  // namespace

// Each class of models once had a name of its own for this file.
std::initializer_list<const char*> sentence_settings_files() {
  static constexpr std::initializer_list<const char*> kNames = {
      "sentence_bert_config.json",      "sentence_roberta_config.json", "sentence_distilbert_config.json",
      "sentence_camembert_config.json", "sentence_albert_config.json",  "sentence_xlm-roberta_config.json",
      "sentence_xlnet_config.json"};
  return kNames;
}

SentenceSettings read_sentence_settings(const std::filesystem::path& folder, const std::filesystem::path& encoder) {
  SentenceSettings settings;
  const bool ranks_pairs = is_cross_encoder(folder);
  const auto encoder_file = io::read_json_if_there(encoder, sentence_settings_files(), kSettingsReader);
  if (encoder_file) {
    Keys keys(encoder_file->value, encoder_file->file.string());
    settings.longest = keys.whole("max_seq_length", 0);
    if (settings.longest < 0 || (settings.longest == 0 && keys.has("max_seq_length"))) {
      keys.refuse("max_seq_length", "1 or more");
    }
    // sentence-transformers reads this file only where there are modules. The limit counts without them, too: trainings
    // write it for every kind of head.
    settings.lowercase = keys.flag("do_lower_case", false) && (ranks_pairs || has_sentence_modules(folder));
    check_outputs(keys, ranks_pairs);
    read_arguments(keys, settings);
    refuse_others(
        keys, encoder_file->value,
        {"max_seq_length", "do_lower_case", "transformer_task", "module_output_name", "modality_config", "model_args",
         "model_kwargs", "config_args", "config_kwargs", "tokenizer_args", "processor_kwargs", "unpad_inputs"});
  }
  if (!ranks_pairs && !has_sentence_modules(folder)) return settings;
  if (const auto file = io::read_json_if_there(folder, {"config_sentence_transformers.json"}, kSettingsReader)) {
    Keys keys(file->value, file->file.string());
    read_prompts(keys, settings, ranks_pairs);
    if (ranks_pairs) {
      (void)keys.value("activation_fn");  // read_scores()
      refuse_others(keys, file->value,
                    {"__version__", "prompts", "default_prompt_name", "model_type", "activation_fn", "requirements",
                     "keep_in_fp32_modules"});
      return settings;
    }
    keys.expect("model_type", {std::string_view("SentenceTransformer")});
    settings.size = keys.whole("truncate_dim", 0);
    if (settings.size < 0 || (settings.size == 0 && keys.has("truncate_dim"))) keys.refuse("truncate_dim", "1 or more");
    refuse_others(keys, file->value,
                  {"__version__", "prompts", "default_prompt_name", "model_type", "similarity_fn_name", "truncate_dim",
                   "requirements"});
  }
  return settings;
}

int64_t longest_text(const std::filesystem::path& folder, int64_t positions, const char* function) {
  const auto settings = io::read_json_if_there(folder, {"tokenizer_config.json"}, function);
  if (!settings || !settings->value.is_object()) return positions;
  for (const char* const key : {"model_max_length", "max_len"}) {
    const auto found = settings->value.find(key);
    if (found == settings->value.end() || found->is_null()) continue;
    const std::string file = settings->file.string();
    require(found->is_number(), function, file, ": a number under \"", key, "\"; found ", io::json_ascii(*found));
    const auto limit = found->get<double>();  // 1e30 stands for none
    require(limit >= 1, function, file, ": 1 or more under \"", key, "\"; found ", io::json_ascii(*found));
    return limit < static_cast<double>(positions) ? static_cast<int64_t>(limit) : positions;
  }
  return positions;
}

int64_t longest_text(const SentenceSettings& settings, const std::filesystem::path& encoder, const Config& config,
                     bool by_others, const char* function) {
  if (settings.longest > 0) return std::min(settings.longest, config.max_length);
  return by_others ? longest_text(encoder, config.max_length, function) : config.max_length;
}

void keep_longest(int64_t longest, const std::filesystem::path& folder, const char* function) {
  const auto found = io::read_json_if_there(folder, sentence_settings_files(), function);
  io::Json settings = found ? found->value : io::Json::object();
  if (!settings.value("max_seq_length", io::Json()).is_null()) return;
  settings["max_seq_length"] = longest;
  const std::filesystem::path file = found ? found->file : folder / *sentence_settings_files().begin();
  io::write_file_atomically(file, io::json_text(settings, 2) + "\n");
}

Scores read_scores(const std::filesystem::path& folder, const Config& config) {
  const bool alone = config.labels.size() == 1;  // the class that an activation of a cross-encoder is for
  if (alone && is_cross_encoder(folder)) {
    const auto settings = io::read_json_if_there(folder, {"config_sentence_transformers.json"}, kSettingsReader);
    Keys keys(settings->value, settings->file.string());
    std::string activation = keys.word("activation_fn", "");
    if (!activation.starts_with("torch.")) activation.clear();  // sentence-transformers imports no other
    if (activation.ends_with(".Identity")) return Scores::raw;
    if (activation.ends_with(".Sigmoid")) return Scores::independent;
    if (!activation.empty()) keys.refuse("activation_fn", "Identity or Sigmoid at its end");
  }
  return alone && config.scores == Scores::probabilities ? Scores::independent : config.scores;
}

}  // namespace heed::models
