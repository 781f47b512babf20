// The settings of a search in a folder of Hugging Face: generation_config.json, or the same keys of config.json.
#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>

#include "formats/json.h"
#include "heed/error.h"
#include "heed/generate.h"
#include "heed/io.h"

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
    Neutral{"repetition_penalty", 1}, Neutral{"encoder_repetition_penalty", 1},   Neutral{"diversity_penalty", 0},
    Neutral{"num_beam_groups", 1},    Neutral{"encoder_no_repeat_ngram_size", 0}, Neutral{"penalty_alpha", 0},
    Neutral{"guidance_scale", 1},
};
constexpr std::array kMustBeAbsent = {"force_words_ids",    "constraints",
                                      "forced_decoder_ids", "exponential_decay_length_penalty",
                                      "sequence_bias",      "stop_strings"};

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
    if (found == nullptr) return -1;
    if (!found->is_number_integer() || found->get<int64_t>() < 0 || found->get<int64_t>() > INT32_MAX) {
      refuse(key, "the id of one token");
    }
    return found->get<int32_t>();
  }
  void tokens(const char* key, std::vector<int32_t>& to) const {
    const Json* const found = find(key);
    if (found == nullptr) return;
    if (!found->is_array()) refuse(key, "a list of tokens");
    for (const Json& entry : *found) {
      const Json& id = entry.is_array() && entry.size() == 1 ? entry.front() : entry;
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) {
        refuse(key, "a list of single tokens");
      }
      to.push_back(id.get<int32_t>());
    }
  }

 private:
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

}  // namespace

BeamOptions search_settings(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::path file = folder / "generation_config.json";
  if (!std::filesystem::exists(file, ignored)) file = folder / "config.json";
  io::ParsedJson parsed = io::parse_json(io::read_file(file, kSettingsLimit));
  require(parsed.problem.empty(), kSettingsReader, file.string(), ": ", parsed.problem);
  require(parsed.value.is_object(), kSettingsReader, file.string(), ": a JSON object; found ",
          parsed.value.type_name());
  const Settings settings(std::move(parsed.value), file.string());
  for (const Neutral& neutral : kNeutral) {
    if (settings.number(neutral.key, neutral.value) != neutral.value) {
      settings.refuse(neutral.key, "a setting that heed's search has");
    }
  }
  for (const char* const key : kMustBeAbsent) {
    if (const Json* const found = settings.find(key); found != nullptr && !found->empty()) {
      settings.refuse(key, "a setting that heed's search has");
    }
  }
  BeamOptions options;
  options.beam = settings.whole("num_beams", 1);
  options.length_penalty = settings.number("length_penalty", 1);
  options.stop_when = stop_when(settings);
  if (options.beam == 1) options.stop_when = StopWhen::full;
  // transformers counts the start token; its default of 20 is not taken over.
  if (settings.find("max_length") != nullptr) options.max_length = settings.whole("max_length", 0) - 1;
  options.max_length = settings.whole("max_new_tokens", options.max_length);
  options.min_length = std::max<int64_t>(settings.whole("min_length", 0) - 1, settings.whole("min_new_tokens", 0));
  options.min_length = std::max<int64_t>(options.min_length, 0);
  options.length_factor = 0;
  options.no_repeat_ngram = settings.whole("no_repeat_ngram_size", 0);
  if (const int32_t first = settings.token("forced_bos_token_id"); first >= 0) options.prefix = {first};
  options.last_id = settings.token("forced_eos_token_id");
  options.forced_free = true;
  settings.tokens("bad_words_ids", options.suppressed);
  settings.tokens("suppress_tokens", options.suppressed);
  const int32_t end = settings.token("eos_token_id");  // a list with the end in it does not forbid ends
  std::erase(options.suppressed, end);
  if (options.max_length < 1) settings.refuse("max_length", "room for one token at least");
  return options;
}

}  // namespace heed::generate
