// The folders of sentence-transformers.
#include "models/sentence_folder.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "formats/json.h"
#include "heed/error.h"
#include "heed/io.h"
#include "models/families/keys.h"

namespace heed::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModulesReader = "Encoder::load";

io::Json read_small_json(const fs::path& file) {
  constexpr int64_t kLimit = int64_t{1} << 20;
  io::ParsedJson parsed = io::parse_json(io::read_file(file, kLimit));
  require(parsed.problem.empty(), kModulesReader, file.string(), ": ", parsed.problem);
  return std::move(parsed.value);
}

// The folder of the entry: inside of `folder`, so that no model reads files that are not its own.
fs::path folder_of_entry(const fs::path& folder, Keys& keys) {
  const std::string path = keys.word("path", "");
  const fs::path below = fs::path(path).lexically_normal();
  const bool leaves = below.is_absolute() || (!below.empty() && *below.begin() == "..");
  if (leaves) keys.refuse("path", "a folder inside of the model's");
  return path.empty() ? folder : folder / below;
}

struct PoolingName {
  std::string_view older, newer;
  TokenPooling pooling;
};
// In the order in which several older ones stand side by side.
constexpr std::array kPoolingNames = {
    PoolingName{"pooling_mode_cls_token", "cls", TokenPooling::first},
    PoolingName{"pooling_mode_max_tokens", "max", TokenPooling::largest},
    PoolingName{"pooling_mode_mean_tokens", "mean", TokenPooling::mean},
    PoolingName{"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", TokenPooling::mean_by_root},
    PoolingName{"pooling_mode_weightedmean_tokens", "weightedmean", TokenPooling::weighted_mean},
    PoolingName{"pooling_mode_lasttoken", "lasttoken", TokenPooling::last},
};

std::vector<TokenPooling> read_newer_poolings(Keys& keys) {
  const io::Json& mode = keys.value("pooling_mode");
  std::vector<TokenPooling> poolings;
  for (const io::Json& one : mode.is_array() ? mode : io::Json::array({mode})) {
    const auto at = std::find_if(kPoolingNames.begin(), kPoolingNames.end(), [&](const PoolingName& name) {
      return one.is_string() && one.get<std::string>() == name.newer;
    });
    if (at == kPoolingNames.end()) {
      keys.refuse("pooling_mode", "cls, max, mean, mean_sqrt_len_tokens, weightedmean or lasttoken, or a list of them");
    }
    poolings.push_back(at->pooling);
  }
  if (poolings.empty()) keys.refuse("pooling_mode", "one or more");
  return poolings;
}

std::vector<TokenPooling> read_poolings(Keys& keys) {
  if (keys.has("pooling_mode")) {
    for (const PoolingName& name : kPoolingNames) (void)keys.value(name.older);  // which then say nothing
    return read_newer_poolings(keys);
  }
  std::vector<TokenPooling> poolings;
  for (const PoolingName& name : kPoolingNames) {
    if (keys.flag(name.older, false)) poolings.push_back(name.pooling);
  }
  if (poolings.empty()) poolings.push_back(TokenPooling::mean);
  return poolings;
}

}  // namespace

std::vector<SentenceModule> read_sentence_modules(const fs::path& folder) {
  const fs::path file = folder / "modules.json";
  const io::Json list = read_small_json(file);
  require(list.is_array() && !list.empty(), kModulesReader, file.string(), ": a list of modules; found ",
          list.is_array() ? "an empty one" : list.type_name());
  std::vector<SentenceModule> entries;
  for (const io::Json& item : list) {
    Keys keys(item, file.string() + ", module " + std::to_string(entries.size() + 1));
    const std::string type = keys.word("type", "");
    if (!type.starts_with("sentence_transformers.")) keys.refuse("type", "a class of sentence_transformers");
    (void)keys.value("idx");
    (void)keys.word("name", "");
    entries.push_back({.kind = type.substr(type.rfind('.') + 1), .folder = folder_of_entry(folder, keys)});
    keys.finish();
    constexpr std::array<std::string_view, 4> kKnown = {"Transformer", "Pooling", "Dense", "Normalize"};
    if (std::find(kKnown.begin(), kKnown.end(), entries.back().kind) == kKnown.end()) {
      keys.refuse("type", "Transformer, Pooling, Dense or Normalize at its end");
    }
    const bool in_place = entries.size() == 1   ? entries.back().kind == "Transformer"
                          : entries.size() == 2 ? entries.back().kind == "Pooling"
                                                : entries.back().kind != "Transformer";
    if (!in_place) keys.refuse("type", "a Transformer, a Pooling, and then others");
    const bool has_folder = keys.has("path") || entries.size() == 1 || entries.back().kind == "Normalize";
    if (!has_folder) keys.refuse("path", "the folder of the module");
  }
  require(entries.size() >= 2, kModulesReader, file.string(), ": a Transformer and a Pooling; found one module");
  return entries;
}

bool is_cross_encoder(const fs::path& folder) {
  std::error_code ignored;
  const fs::path file = folder / "config_sentence_transformers.json";
  // Without modules.json sentence-transformers does not read it.
  if (!fs::exists(file, ignored) || !fs::exists(folder / "modules.json", ignored)) return false;
  const io::Json settings = read_small_json(file);
  return settings.is_object() && settings.value("model_type", io::Json()) == "CrossEncoder";
}

bool has_sentence_modules(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "modules.json", ignored)) return false;
  // A cross-encoder of sentence-transformers 6 lists its Transformer alone.
  if (!is_cross_encoder(folder)) return true;
  const io::Json list = read_small_json(folder / "modules.json");
  if (!list.is_array() || list.size() != 1 || !list[0].is_object()) return true;
  const io::Json path = list[0].value("path", io::Json());
  return !path.is_string() || !path.get<std::string>().empty();
}

bool is_sentence_transformer(const fs::path& folder) {
  std::error_code ignored;
  const fs::path above = folder / "..";
  try {
    return has_sentence_modules(above) && fs::equivalent(read_sentence_modules(above).front().folder, folder, ignored);
  } catch (const Error&) {
    return false;  // the modules of something else
  }
}

namespace {

// The files of these models do not say that prompts are left out: sentence-transformers knows them by their names. Here
// the name is a part of the path: in the cache of Hugging Face, or in a folder that was cloned.
bool is_instructor(const fs::path& folder) {
  const std::string path = "/" + folder.lexically_normal().generic_string() + "/";
  return std::ranges::any_of(std::array{"base", "large", "xl"}, [&](const std::string& size) {
    return path.find("/models--hkunlp--instructor-" + size + "/") != std::string::npos ||
           path.find("/hkunlp/instructor-" + size + "/") != std::string::npos;
  });
}

}  // namespace

SentencePooling read_sentence_pooling(const fs::path& folder, int64_t width) {
  const fs::path file = folder / "config.json";
  const io::Json object = read_small_json(file);
  Keys keys(object, file.string());
  const char* const size_key = keys.has("embedding_dimension") ? "embedding_dimension" : "word_embedding_dimension";
  (void)keys.value("word_embedding_dimension");  // its older name
  if (keys.whole(size_key) != width) keys.refuse(size_key, std::to_string(width) + ", the width of the model");
  SentencePooling pooling{.poolings = read_poolings(keys), .pools_prompts = keys.flag("include_prompt", true)};
  pooling.pools_prompts = pooling.pools_prompts && !is_instructor(folder);
  keys.finish();
  return pooling;
}

void keep_prompts_out(const fs::path& from, const fs::path& to) {
  if (!is_instructor(from)) return;
  io::Json settings = read_small_json(to / "config.json");
  settings["include_prompt"] = false;
  io::write_file_atomically(to / "config.json", io::json_text(settings, 2) + "\n");
}

}  // namespace heed::models
