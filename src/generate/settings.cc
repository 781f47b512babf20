// The settings of a search in a folder of Hugging Face: generation_config.json, or the same keys of config.json.
#include "generate/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <system_error>

#include "formats/json.h"
#include "heed/error.h"
#include "heed/generate.h"
#include "heed/io.h"
#include "heed/models.h"

namespace heed::generate {
namespace {

using io::Json;

constexpr const char* kSettingsReader = "search_settings";
constexpr int64_t kSettingsLimit = int64_t{1} << 20;  // bytes of a JSON file

// Settings that heed's search does not have, and the value that leaves the result alone.
struct Neutral {
  const char* key;
  double value;
};
constexpr std::array kNeutral = {
    Neutral{"encoder_repetition_penalty", 1},
    Neutral{"encoder_no_repeat_ngram_size", 0},
    Neutral{"diversity_penalty", 0},
    Neutral{"num_beam_groups", 1},
    Neutral{"penalty_alpha", 0},
    Neutral{"guidance_scale", 1},
};
constexpr std::array kMustBeAbsent = {
    "force_words_ids", "constraints",  "forced_decoder_ids",  "exponential_decay_length_penalty",
    "sequence_bias",   "stop_strings", "watermarking_config", "max_time",
    "token_healing",   "dola_layers"};
constexpr std::array kUnderstood = {"num_beams",
                                    "length_penalty",
                                    "early_stopping",
                                    "max_length",
                                    "max_new_tokens",
                                    "min_length",
                                    "min_new_tokens",
                                    "no_repeat_ngram_size",
                                    "repetition_penalty",
                                    "forced_bos_token_id",
                                    "forced_eos_token_id",
                                    "bad_words_ids",
                                    "suppress_tokens",
                                    "begin_suppress_tokens",
                                    "renormalize_logits",
                                    "decoder_start_token_id",
                                    "bos_token_id",
                                    "eos_token_id",
                                    "do_sample"};
// What changes no output of a search: versions, caches, what else transformers returns, settings of sampling and of
// assistants, which guess tokens that the model then checks.
constexpr std::array kHarmless = {"transformers_version",
                                  "pad_token_id",
                                  "dtype",
                                  "torch_dtype",
                                  "trust_remote_code",
                                  "use_cache",
                                  "cache_implementation",
                                  "cache_config",
                                  "max_cache_len",
                                  "return_legacy_cache",
                                  "low_memory",
                                  "prefill_chunk_size",
                                  "compile_config",
                                  "disable_compile",
                                  "continuous_batching_config",
                                  "remove_invalid_values",
                                  "num_return_sequences",
                                  "output_attentions",
                                  "output_hidden_states",
                                  "output_scores",
                                  "output_logits",
                                  "return_dict_in_generate",
                                  "temperature",
                                  "top_k",
                                  "top_p",
                                  "min_p",
                                  "top_h",
                                  "typical_p",
                                  "epsilon_cutoff",
                                  "eta_cutoff",
                                  "is_assistant",
                                  "num_assistant_tokens",
                                  "num_assistant_tokens_schedule",
                                  "assistant_confidence_threshold",
                                  "assistant_early_exit",
                                  "assistant_lookbehind",
                                  "assistant_ensemble_weight",
                                  "target_lookbehind",
                                  "prompt_lookup_num_tokens",
                                  "max_matching_ngram_size",
                                  "speculation_type",
                                  "use_mtp"};

bool is_among(const std::string& key, std::span<const char* const> keys) { return std::ranges::count(keys, key) > 0; }

class Settings {
 public:
  Settings(Json object, std::string where) : object_(std::move(object)), where_(std::move(where)) {}

  [[nodiscard]] const Json* find(const char* key) const {
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  [[noreturn]] void refuse(const char* key, std::string_view expected) const {
    std::string text = io::json_ascii(object_.at(key));
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    fail(kSettingsReader, where_, ": key \"", key, "\": ", expected, "; found ", text);
  }
  [[nodiscard]] double number(const char* key, double usual) const {
    const Json* const found = find(key);
    if (found == nullptr) return usual;
    if (!found->is_number() || !std::isfinite(found->get<double>())) refuse(key, "a number");
    return found->get<double>();
  }
  [[nodiscard]] int64_t whole(const char* key, int64_t usual) const {
    const double value = number(key, static_cast<double>(usual));
    if (value != std::floor(value) || std::abs(value) > 1e9) refuse(key, "a whole number");
    return static_cast<int64_t>(value);
  }
  // A token, or a list of one.
  [[nodiscard]] int32_t token(const char* key) const {
    const Json* found = find(key);
    if (found != nullptr && found->is_array() && found->size() == 1) found = &found->front();
    return found == nullptr ? -1 : id_in(*found, key, "the id of one token");
  }
  [[nodiscard]] bool flag(const char* key) const {
    const Json* const found = find(key);
    if (found != nullptr && !found->is_boolean()) refuse(key, "true or false");
    return found != nullptr && found->get<bool>();
  }
  // A list of tokens, or of lists of one.
  void tokens(const char* key, std::vector<int32_t>& to) const {
    const Json* const found = find(key);
    if (found == nullptr) return;
    if (!found->is_array()) refuse(key, "a list of tokens");
    for (const Json& entry : *found) {
      to.push_back(
          id_in(entry.is_array() && entry.size() == 1 ? entry.front() : entry, key, "a list of single tokens"));
    }
  }
  // A list of tokens, and of lists of some.
  void sequences(const char* key, std::vector<int32_t>& alone, std::vector<Ids>& several) const {
    const Json* const found = find(key);
    if (found == nullptr) return;
    if (!found->is_array()) refuse(key, "a list of lists of tokens");
    for (const Json& entry : *found) {
      Ids ids;
      for (const Json& id : entry.is_array() ? entry : Json::array({entry}))
        ids.push_back(id_in(id, key, "a list of lists of tokens"));
      if (ids.empty()) refuse(key, "lists of at least one token");
      if (ids.size() == 1) alone.push_back(ids.front());
      if (ids.size() > 1) several.push_back(std::move(ids));
    }
  }

  [[nodiscard]] std::vector<int32_t> ends() const {
    std::vector<int32_t> ids;
    if (const Json* const found = find("eos_token_id"); found != nullptr && found->is_array()) {
      tokens("eos_token_id", ids);
    } else if (found != nullptr) {
      ids.push_back(token("eos_token_id"));
    }
    return ids;
  }
  // Keys that nobody knows may change what is written.
  void refuse_unknown() const {
    for (const auto& [key, value] : object_.items()) {
      const bool says_nothing =
          value.is_null() || value == false || (value.is_structured() && value.empty()) || key.starts_with("_");
      if (says_nothing || is_among(key, kUnderstood) || is_among(key, kHarmless) || is_among(key, kMustBeAbsent) ||
          std::ranges::count(kNeutral, key, &Neutral::key) > 0) {
        continue;
      }
      refuse(key.c_str(), "a setting that heed knows (take it out if it changes no output)");
    }
  }

 private:
  int32_t id_in(const Json& value, const char* key, std::string_view expected) const {
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > INT32_MAX)
      refuse(key, expected);
    return value.get<int32_t>();
  }

  Json object_;
  std::string where_;
};

StopWhen stop_when(const Settings& settings) {
  const Json* const early = settings.find("early_stopping");
  if (early == nullptr || *early == false) return StopWhen::worst;
  if (*early == true) return StopWhen::full;
  if (*early == "never") return StopWhen::possible;
  settings.refuse("early_stopping", "true, false or \"never\"");
}

bool has_own_file(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / "generation_config.json", ignored);
}

Settings read_settings(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / (has_own_file(folder) ? "generation_config.json" : "config.json");
  io::ParsedJson parsed = io::parse_json(io::read_file(file, kSettingsLimit));
  require(parsed.problem.empty(), kSettingsReader, file.string(), ": ", parsed.problem);
  require(parsed.value.is_object(), kSettingsReader, file.string(), ": a JSON object; found ",
          parsed.value.type_name());
  return {std::move(parsed.value), file.string()};
}

// Where config.json says that an output ends, whichever layout it has.
int64_t end_of_config(const std::filesystem::path& folder) {
  const Json config = io::parse_json(io::read_file(folder / "config.json", kSettingsLimit)).value;
  for (const char* const key : {"eos_token_id", "end_id"}) {
    if (!config.is_object() || !config.contains(key)) continue;
    const Json& found = config[key];
    const Json& id = found.is_array() && found.size() == 1 ? found.front() : found;
    if (id.is_number_integer()) return id;
  }
  return models::read_config(folder).end_id;  // the usual one of the family
}

// The tokens that every output begins with. BART's first files have a flag in place of the token.
std::vector<int32_t> forced_beginning(const Settings& settings, bool own_file) {
  if (const int32_t first = settings.token("forced_bos_token_id"); first >= 0) return {first};
  if (own_file || !settings.flag("force_bos_token_to_be_generated")) return {};
  return {std::max(settings.token("bos_token_id"), 0)};  // 0 is the usual one of BART
}

// The first token and the end of generation_config.json take precedence over those of config.json. Everything else of
// heed ends at the latter, so the two must agree.
void read_begin_and_end(const Settings& settings, const std::filesystem::path& folder, BeamOptions& options) {
  options.begin_id = settings.token("decoder_start_token_id");
  if (options.begin_id < 0) options.begin_id = settings.token("bos_token_id");
  const std::vector<int32_t> ends = settings.ends();
  std::error_code ignored;
  if (ends.empty() || !std::filesystem::exists(folder / "config.json", ignored)) return;
  const int64_t end = end_of_config(folder);
  if (std::ranges::any_of(ends, [end](int32_t id) { return id != end; }))
    settings.refuse("eos_token_id", "the end of config.json alone, " + std::to_string(end));
}

}  // namespace

bool asks_for_samples(const std::filesystem::path& folder) { return read_settings(folder).flag("do_sample"); }

StopWhen stop_when_of(const std::filesystem::path& folder) { return stop_when(read_settings(folder)); }

std::string generation_config_of(const std::filesystem::path& folder) {
  const Settings settings = read_settings(folder);
  Json found = Json::object();
  for (const char* const key : kUnderstood) {
    // The model's own configuration says how an output begins.
    const bool begins = std::string_view(key) == "decoder_start_token_id" || std::string_view(key) == "bos_token_id";
    if (const Json* const value = settings.find(key); value != nullptr && !begins) found[key] = *value;
  }
  if (const std::vector<int32_t> first = forced_beginning(settings, false); !first.empty())
    found["forced_bos_token_id"] = first.front();
  return io::json_text(found, 2) + "\n";
}

BeamOptions search_settings(const std::filesystem::path& folder) {
  const Settings settings = read_settings(folder);
  if (has_own_file(folder)) settings.refuse_unknown();
  for (const Neutral& neutral : kNeutral) {
    if (settings.number(neutral.key, neutral.value) != neutral.value) {
      settings.refuse(neutral.key, "a setting that heed's search has");
    }
  }
  for (const char* const key : kMustBeAbsent) {
    if (const Json* const found = settings.find(key); found != nullptr && *found != false && !found->empty()) {
      settings.refuse(key, "a setting that heed's search has");
    }
  }
  BeamOptions options;
  if (has_own_file(folder)) read_begin_and_end(settings, folder, options);
  (void)settings.flag("do_sample");
  options.beam = settings.whole("num_beams", 1);
  options.length_penalty = settings.number("length_penalty", 1);
  options.stop_when = stop_when(settings);
  if (options.beam == 1) options.stop_when = StopWhen::full;
  // transformers counts the start token; its default of 20 is not taken over.
  if (settings.find("max_length") != nullptr) options.max_length = settings.whole("max_length", 0) - 1;
  options.max_length = settings.whole("max_new_tokens", options.max_length);
  options.min_length = settings.whole("min_new_tokens", settings.whole("min_length", 0) - 1);
  options.min_length = std::max<int64_t>(options.min_length, 0);
  options.length_factor = 0;  // transformers has none
  options.no_repeat_ngram = settings.whole("no_repeat_ngram_size", 0);
  options.repetition_penalty = settings.number("repetition_penalty", 1);
  if (options.repetition_penalty <= 0) settings.refuse("repetition_penalty", "a number above 0");
  options.prefix = forced_beginning(settings, has_own_file(folder));
  options.last_id = settings.token("forced_eos_token_id");
  options.forced_free = true;
  settings.sequences("bad_words_ids", options.suppressed, options.suppressed_sequences);
  // "bad_words_ids" does not forbid the end, and "suppress_tokens" does.
  const std::vector<int32_t> ends = settings.ends();
  std::erase_if(options.suppressed, [&](int32_t id) { return std::ranges::count(ends, id) > 0; });
  settings.tokens("suppress_tokens", options.suppressed);
  settings.tokens("begin_suppress_tokens", options.suppressed_first);
  options.renormalised = settings.flag("renormalize_logits");
  if (options.max_length < 1) settings.refuse("max_length", "room for one token at least");
  return options;
}

std::optional<BeamOptions> settings_of_translator(const std::filesystem::path& folder, const models::Model& model) {
  if (model.origin() == nullptr && !has_own_file(folder)) return std::nullopt;
  BeamOptions settings = search_settings(folder);
  settings.stop_when = stop_when_of(folder);
  return settings;
}

BeamOptions with_settings(BeamOptions search, const BeamOptions& folder) {
  const auto add = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  if (search.prefix.empty()) search.prefix = folder.prefix;
  search.last_id = folder.last_id;
  search.forced_free = folder.forced_free;
  add(search.suppressed, folder.suppressed);
  add(search.suppressed_first, folder.suppressed_first);
  add(search.suppressed_sequences, folder.suppressed_sequences);
  if (search.repetition_penalty == 1) search.repetition_penalty = folder.repetition_penalty;
  search.renormalised = search.renormalised || folder.renormalised;
  if (!search.length_factor) search.length_factor = folder.length_factor;
  if (search.no_repeat_ngram == 0) search.no_repeat_ngram = folder.no_repeat_ngram;
  search.min_length = std::max(search.min_length, folder.min_length);
  if (!search.length_penalty) search.length_penalty = folder.length_penalty;
  if (!search.stop_when) search.stop_when = search.beam == 1 ? StopWhen::full : folder.stop_when;
  return search;
}

void leave_out_rows(BeamOptions& search, int64_t tokens, int64_t rows) {
  for (int64_t id = tokens; id < rows; ++id) search.suppressed.push_back(static_cast<int32_t>(id));
}

}  // namespace heed::generate
