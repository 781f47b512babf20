#include "serve/models.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>

#include "base/numbers.h"
#include "heed/error.h"
#include "heed/io.h"
#include "pipelines/encoding.h"
#include "pipelines/folder.h"
#include "pipelines/sentence_modules.h"

namespace heed::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostCheckpoints = 4;   // open at a time
constexpr int64_t kMostLogRows = 20000;  // in one answer

std::string_view task_of(const Served& model) {
  return model.translates() ? "translate" : model.decodes() ? "continue" : "fill";
}

// The language that the page begins with where a request must name one: English, French for an English text, else
// another one than the text's. Empty where none need be named.
std::string first_target(const Translator::Languages& all) {
  if (!all.needs_target) return {};
  const auto find = [&](std::string_view language) {
    return std::ranges::find_if(all.target, [&](const std::string& name) {
      return name != all.usual_source && name.starts_with(language) &&
             (language.empty() || name.size() == language.size() || name[language.size()] == '_');
    });
  };
  for (const std::string_view language : {"eng", "en", "fra", "fr", ""})
    if (const auto found = find(language); found != all.target.end()) return *found;
  return all.target.front();
}

json languages_json(const Served& model) {
  const Translator::Languages& all = model.languages;
  if (all.source.empty() && all.target.empty()) return nullptr;
  return {{"source", all.source},
          {"target", all.target},
          {"usual_source", all.usual_source},
          {"usual_target", all.usual_target},
          {"first_target", first_target(all)}};
}

// The name of the folder, and of the one it is in where the person who serves it wrote that too: no other path of the
// machine is shown.
std::string name_of(const fs::path& folder) {
  fs::path path = folder.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string parent = path.parent_path().filename().string();
  const bool plain = path.is_relative() && !parent.empty() && parent != "." && parent != "..";
  if (plain) return parent + "/" + path.filename().string();
  return fs::absolute(path).lexically_normal().filename().string();
}

// As `heed info` and `heed embed` find a model: also in the cache of Hugging Face's tools, and where the encoder of a
// folder of sentence-transformers is in a folder inside of it.
ModelFolders folders_of(const fs::path& name) {
  const fs::path named = io::find_model_folder(name.string());
  const fs::path encoder = pipelines::SentenceModules::encoder_folder(named);
  return {.named = named, .weights = encoder, .tokenizers = encoder};
}

bool has_log(const fs::path& folder) {
  std::error_code unreadable;
  return fs::exists(folder / "log.jsonl", unreadable);
}

// The update of a checkpoint's folder, "step-00000250"; -1 for another folder.
int64_t update_of(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  int64_t update = -1;
  if (!name.starts_with(kPrefix)) return -1;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, update);
  return error == std::errc() && stop == end ? update : -1;
}

}  // namespace

std::string Served::piece(int32_t token) const {
  return !decodes() && token == config().mask_id ? "[MASK]" : pipelines::label_of(output_tokenizer(), token);
}

std::string Served::source_piece(int32_t token) const {
  return !decodes() && token == config().mask_id ? "[MASK]" : pipelines::label_of(*source, token);
}

Models::Models(const std::vector<fs::path>& folders) : count_(static_cast<int64_t>(folders.size())) {
  require(!folders.empty(), "serve", "at least one model; found none");
  std::set<std::string> seen;
  for (const fs::path& folder : folders) {
    std::string name = name_of(folder);
    for (int n = 2; !seen.insert(name).second; ++n) name = name_of(folder) + " (" + std::to_string(n) + ")";
    places_.push_back({.folders = folders_of(folder), .name = name, .open = nullptr});
  }
  for (int64_t id = 0; id < count_; ++id) (void)at(id);
}

void Models::open(const Place& place, Served& fresh) {
  open_files(place, fresh);
  if (fresh.translates()) fresh.languages = fresh.translator->languages();
}

void Models::open_files(const Place& place, Served& fresh) {
  const fs::path& folder = place.folders.weights;
  const auto architecture = models::read_config(folder).architecture;
  if (!place.checkpoint && architecture == models::Architecture::encoder_decoder) {
    fresh.translator = std::make_shared<const Translator>(Translator::load(folder));
    fresh.model = {fresh.translator, &fresh.translator->model()};
    fresh.source = {fresh.translator, &fresh.translator->source_tokenizer()};
    fresh.target = {fresh.translator, &fresh.translator->target_tokenizer()};
    return;
  }
  fresh.model = models::load(folder, {.packed = true});
  open_tokenizers(place, fresh);
  if (!fresh.translates()) return;
  const auto training = std::find_if(places_.begin(), places_.end(), [&](const Place& p) {
    return !p.checkpoint && p.folders.weights == place.folders.tokenizers;
  });
  require(training != places_.end(), "serve", "a checkpoint of a training that is served; found ", place.name);
  fresh.translator = at(training - places_.begin())->translator;
}

void Models::open_tokenizers(const Place& place, Served& fresh) {
  const fs::path& folder = place.folders.tokenizers;
  const auto load_tokenizer = [&](text::Side side) {
    return pipelines::load_tokenizer(folder, side, "serve", *fresh.model);
  };
  if (fresh.encodes()) fresh.source = load_tokenizer(text::Side::source);
  if (fresh.decodes()) fresh.target = load_tokenizer(text::Side::target);
  const auto encoder = std::dynamic_pointer_cast<const models::Bert>(fresh.model);
  if (!encoder) return;
  const auto settings = models::read_sentence_settings(place.folders.named, folder);
  fresh.reader = std::make_shared<const pipelines::EncoderReader>(
      pipelines::EncoderReader::of(encoder, fresh.source, folder, settings, "serve"));
}

std::shared_ptr<const Served> Models::at(int64_t id) {
  if (id < 0 || id >= static_cast<int64_t>(places_.size()))
    throw Error("model: expected the number of a model that is served, from 0 to " + std::to_string(count_ - 1) +
                "; found " + std::to_string(id));
  Place& place = places_[static_cast<size_t>(id)];
  const std::string version = version_of(place.folders);
  if (place.open && (version.empty() || version == place.open->version)) return place.open;
  auto fresh = std::make_shared<Served>();
  try {
    fresh->id = id;
    fresh->name = place.name;
    fresh->version = version;
    open(place, *fresh);
  } catch (const std::exception&) {
    // A training is writing the folder: what was opened before still stands, and the next request looks again.
    if (place.open) return place.open;
    throw;
  }
  place.open = fresh;
  if (place.checkpoint) {
    std::erase(open_checkpoints_, id);
    open_checkpoints_.push_back(id);
    if (open_checkpoints_.size() > kMostCheckpoints) {
      places_[static_cast<size_t>(open_checkpoints_.front())].open = nullptr;
      open_checkpoints_.pop_front();
    }
  }
  return fresh;
}

json Models::list() {
  json all = json::array();
  for (int64_t id = 0; id < count_; ++id) {
    const auto served = at(id);
    const models::Config& config = served->config();
    json parts = json::array();
    if (served->encodes()) parts.push_back("encoder");
    if (served->decodes()) parts.push_back("decoder");
    if (served->translates()) parts.push_back("cross");
    all.push_back({{"id", id},
                   {"name", served->name},
                   {"architecture", models::to_string(config.architecture)},
                   {"task", task_of(*served)},
                   {"tokenizer", (served->encodes() ? served->source : served->target)->kind()},
                   {"guesses", served->guesses()},
                   {"parts", parts},
                   {"encoder_layers", served->encodes() ? config.encoder_layers : 0},
                   {"decoder_layers", served->decodes() ? config.decoder_layers : 0},
                   {"heads", config.heads},
                   {"width", config.width},
                   {"max_length", served->longest()},
                   {"parameters", served->model->parameter_count()},
                   {"mask", served->mask_id() >= 0 ? json(served->reader->mask_token) : json(nullptr)},
                   {"languages", languages_json(*served)},
                   {"training", has_log(places_[static_cast<size_t>(id)].folders.named)},
                   {"version", served->version}});
  }
  return all;
}

json Models::training(int64_t id, int64_t after) {
  const auto served = at(id);
  const ModelFolders folders = places_[static_cast<size_t>(id)].folders;
  const fs::path& folder = folders.named;
  std::ifstream log(folder / "log.jsonl");
  if (!log) throw Error(served->name + ": expected the folder of a training, with a log.jsonl; there is none");
  json rows = json::array();
  int64_t row = 0;
  bool done = false;
  for (std::string line; std::getline(log, line); ++row) {
    const bool whole = !log.eof();  // the last line may be in the middle of being written
    json value = json::parse(line, nullptr, false);
    if (!value.is_object() && !whole) break;
    if (!value.is_object()) value = json::object();  // a line that was cut off, when a training was killed
    const auto type = value.find("type");
    done = type != value.end() && *type == "end";
    if (row >= after && static_cast<int64_t>(rows.size()) < kMostLogRows) rows.push_back(std::move(value));
  }
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code absent;
  for (fs::directory_iterator at(folder / "checkpoints", absent), end; !absent && at != end; at.increment(absent)) {
    const fs::directory_entry& entry = *at;
    const int64_t update = update_of(entry.path().filename().string());
    std::error_code unreadable;
    if (update >= 0 && fs::exists(entry.path() / "model.safetensors", unreadable))
      found.emplace_back(update, entry.path());
  }
  std::sort(found.begin(), found.end());
  json checkpoints = json::array();
  for (const auto& [update, path] : found) {
    const auto known = std::ranges::find_if(places_, [&](const Place& place) { return place.folders.weights == path; });
    const auto number = static_cast<int64_t>(known - places_.begin());
    if (known == places_.end())
      places_.push_back({.folders = {.named = folder, .weights = path, .tokenizers = folders.tokenizers},
                         .name = served->name + ", update " + std::to_string(update),
                         .checkpoint = true,
                         .open = nullptr});
    checkpoints.push_back({{"name", path.filename().string()}, {"update", update}, {"model", number}});
  }
  return {{"rows", rows}, {"checkpoints", checkpoints}, {"running", !done}};
}

std::vector<std::string> Models::lines() {
  std::vector<std::string> out;
  for (int64_t id = 0; id < count_; ++id) {
    const auto served = at(id);
    out.push_back(served->name + ": " + std::string(pipelines::words_for(served->config().architecture)) + ", " +
                  with_commas(served->model->parameter_count()) + " parameters");
  }
  return out;
}

}  // namespace heed::serve
