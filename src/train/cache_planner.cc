#include "train/cache_planner.h"

#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "train/vocabulary_trainer.h"

namespace heed::train {

namespace {

namespace fs = std::filesystem;
using io::Json;

// The one file of a side's tokenizer; nothing where there is none, or two.
std::optional<files::Checksum> tokenizer_checksum(const fs::path& folder, const std::string& side) {
  std::error_code ignored;
  std::optional<files::Checksum> found;
  for (const char* ending : {".model", ".vocab"}) {
    const fs::path file = folder / (side + ending);
    if (!fs::is_regular_file(file, ignored)) continue;
    if (found) return std::nullopt;
    found = files::checksum(file);
  }
  return found;
}

class CachePlanner {
 public:
  CachePlanner(const Recipe& recipe, const fs::path& folder, bool continued,
               const std::function<void(std::string_view)>& message, const CorpusOptions& options)
      : recipe_(recipe),
        cache_(recipe.token_cache),
        folder_(folder),
        continued_(continued),
        message_(message),
        options_(options) {
    if (recipe.task == "translation") {
      sides_ =
          recipe.shared_vocabulary ? std::vector<std::string>{"source"} : std::vector<std::string>{"source", "target"};
    } else {
      sides_ = {is_stream(recipe) ? "target" : "source"};
    }
  }

  PlannedCache make_plan();

 private:
  [[nodiscard]] std::vector<CachePlan::File> look_at_texts() const;
  // Bytes of text in a part: more in a large text, because every part is a file that stays open.
  [[nodiscard]] int64_t part_bytes(const std::vector<CachePlan::File>& texts) const {
    constexpr int64_t kMostFiles = 100;  // of text that is not compressed
    int64_t bytes = 0;
    for (const CachePlan::File& file : texts) bytes += file.checksum.size;
    return std::max(options_.part_bytes, bytes / kMostFiles);
  }
  [[nodiscard]] bool is_same_text(const std::vector<CachePlan::File>& now, const CachePlan& before) const;
  [[nodiscard]] bool read_plan(const std::vector<CachePlan::File>& now);
  void survey();
  [[nodiscard]] Json vocabulary_settings(const Json& split) const;
  [[nodiscard]] bool has_vocabularies(const Json& split) const;
  [[nodiscard]] bool has_held_back(const Json& split) const;
  void learn(const TrainedLines& trained, bool vocabularies);
  void read_lines(const TrainedLines& trained, VocabularyTrainer* trainer) const;
  void save_tokenizers();
  void remove_old_files(bool parts) const;
  void write_plan(const std::string& text) const;

  const Recipe& recipe_;
  fs::path cache_, folder_;
  bool continued_;
  const std::function<void(std::string_view)>& message_;
  const CorpusOptions& options_;
  std::vector<std::string> sides_;  // with a tokenizer of their own

  CachePlan plan_;
  TextTokenizers tokenizers_;
};

// Without reading them.
std::vector<CachePlan::File> CachePlanner::look_at_texts() const {
  std::vector<CachePlan::File> found;
  for (const fs::path& path : training_files(recipe_)) {
    const files::InputFile file(path, kTokenCache);
    found.push_back({.path = fs::absolute(path).string(),
                     .modified = fs::last_write_time(path).time_since_epoch().count(),
                     .checksum = {.size = file.size(), .crc = 0}});
  }
  return found;
}

bool CachePlanner::is_same_text(const std::vector<CachePlan::File>& now, const CachePlan& before) const {
  if (before.texts.size() != now.size() || before.part_bytes != part_bytes(now)) return false;
  for (size_t i = 0; i < now.size(); ++i) {
    const CachePlan::File& then = before.texts[i];
    if (now[i].checksum.size != then.checksum.size) return false;
    const bool untouched = now[i].path == then.path && now[i].modified == then.modified;
    if (!untouched && files::checksum(now[i].path) != then.checksum) return false;
  }
  return true;
}

// Whether the folder has a plan, and of this text.
bool CachePlanner::read_plan(const std::vector<CachePlan::File>& now) {
  const fs::path file = cache_ / kCachePlanFile;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return false;
  try {
    plan_ = plan_from_text(files::read_all(file, kMostPlanBytes, kTokenCache), files::quoted(file));
    if (is_same_text(now, plan_)) return true;
    message_("token_cache: " + files::quoted(cache_) + " holds another text, and is made anew");
  } catch (const Error& error) {
    message_(std::string(error.what()) + "; the file is made anew");
  }
  return false;
}

void CachePlanner::survey() {
  plan_ = {};
  for (const fs::path& file : training_files(recipe_))
    plan_.texts.push_back({.path = {}, .modified = 0, .checksum = files::checksum(file)});
  plan_.part_bytes = part_bytes(plan_.texts);
  TrainingText text(recipe_);
  TrainingText::Place begin = text.place();
  plan_.parts.push_back(begin);
  for (TrainingText::Place at = begin; text.next(); at = text.place()) {
    if (at.source - begin.source + at.target - begin.target >= plan_.part_bytes) {
      plan_.parts.push_back(at);
      begin = at;
      require_no_interrupt(options_, cache_);
    }
  }
  plan_.lines = text.number() + 1;
}

// Without the seed: it is added where it chose lines.
Json CachePlanner::vocabulary_settings(const Json& split) const {
  Json settings = {{"task", recipe_.task}, {"tokenizer", recipe_.tokenizer}, {"split", split}};
  if (recipe_.task == "translation") settings["shared_vocabulary"] = recipe_.shared_vocabulary;
  if (recipe_.tokenizer == "sentencepiece") {
    settings["vocabulary"] = recipe_.vocabulary;
    settings["bpe"] = recipe_.bpe;
    settings["vocabulary_lines"] = recipe_.vocabulary_lines;
  }
  return settings;
}

bool CachePlanner::has_vocabularies(const Json& split) const {
  for (const std::string& side : sides_) {
    const auto found = plan_.tokenizers.find(side);
    if (found == plan_.tokenizers.end() || tokenizer_checksum(cache_, side) != found->second) return false;
    if (continued_ && tokenizer_checksum(folder_, side) != found->second) return false;
  }
  if (continued_) return true;
  Json settings = plan_.vocabulary;
  if (settings.is_object() && settings.contains("seed")) {
    if (settings["seed"] != recipe_.seed) return false;
    settings.erase("seed");
  }
  return settings == vocabulary_settings(split);
}

bool CachePlanner::has_held_back(const Json& split) const {
  if (plan_.split != split) return false;
  std::error_code ignored;
  return !plan_.held_back || (fs::is_regular_file(cache_ / kHeldBackFile, ignored) &&
                              files::checksum(cache_ / kHeldBackFile) == *plan_.held_back);
}

// Writes the lines that are held back, and gives the others to `trainer` where there is one.
void CachePlanner::read_lines(const TrainedLines& trained, VocabularyTrainer* trainer) const {
  TrainingText text(recipe_);
  std::unique_ptr<files::AtomicFile> held_back;
  // With a mark and line ends that readers take away, so that no line loses its own.
  if (!trained.rule().is_null()) {
    held_back = std::make_unique<files::AtomicFile>(cache_ / kHeldBackFile, kTokenCache);
    held_back->write("\xef\xbb\xbf");
  }
  int64_t count = 0;  // of the lines that are trained on
  while (text.next()) {
    if (text.number() % 100000 == 0) require_no_interrupt(options_, cache_);
    if (trained.contains(text)) {
      if (trainer != nullptr) {
        trainer->add(0, count, text.source());
        if (recipe_.task == "translation") trainer->add(1, count, text.target());
      }
      ++count;
    } else if (held_back) {
      held_back->write(text.line());
      held_back->write("\r\n");
    }
  }
  const std::string file = training_files(recipe_)[0].string();
  require(count > 0, "train", file, recipe_.pairs.empty() ? ": lines" : ": pairs", " outside valid_fraction; found ",
          "none of ", plan_.lines);
  if (held_back) held_back->commit();
}

void CachePlanner::learn(const TrainedLines& trained, bool vocabularies) {
  const bool trains = vocabularies && !continued_;
  VocabularyTrainer trainer(recipe_, message_);
  if (trains || !trained.rule().is_null()) read_lines(trained, trains ? &trainer : nullptr);
  plan_.split = trained.rule();
  plan_.held_back.reset();
  if (!plan_.split.is_null()) {
    plan_.held_back = files::checksum(cache_ / kHeldBackFile);
  } else {
    std::error_code ignored;
    fs::remove(cache_ / kHeldBackFile, ignored);
  }
  if (!vocabularies) {
    tokenizers_ = load_tokenizers(recipe_, cache_);
    return;
  }
  plan_.vocabulary = Json();
  if (continued_) {
    tokenizers_ = load_tokenizers(recipe_, folder_);
  } else {
    auto made = trainer.train();
    tokenizers_ = {.source = made.source, .target = made.target};
    plan_.vocabulary = vocabulary_settings(trained.rule());
    if (made.sampled) plan_.vocabulary["seed"] = recipe_.seed;
  }
  save_tokenizers();
}

void CachePlanner::save_tokenizers() {
  plan_.tokenizers.clear();
  for (const std::string& side : sides_) {
    const bool source = side == "source";
    (source ? tokenizers_.source : tokenizers_.target)->save(cache_, source ? text::Side::source : text::Side::target);
    const auto checksum = tokenizer_checksum(cache_, side);
    require(checksum.has_value(), kTokenCache, files::quoted(cache_), ": the tokenizer that was saved; found none");
    plan_.tokenizers[side] = *checksum;
  }
}

// Removes what a killed process left half written, and the parts if they hold other tokens.
void CachePlanner::remove_old_files(bool parts) const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cache_, error)) {
    const std::string name = entry.path().filename().string();
    const bool part = name.starts_with("part-") && name.ends_with(".tokens");
    const auto is_of = [&](std::string_view file) { return name.starts_with("." + std::string(file)); };
    const bool temporary = name.ends_with(".tmp") && (is_of("part-") || is_of(kCachePlanFile) || is_of(kHeldBackFile) ||
                                                      is_of("source.") || is_of("target."));  // (tokenizers)
    std::error_code ignored;
    if (temporary || (parts && part)) fs::remove(entry.path(), ignored);
  }
}

void CachePlanner::write_plan(const std::string& text) const {
  const fs::path file = cache_ / kCachePlanFile;
  const files::Checksum sum{.size = static_cast<int64_t>(text.size()), .crc = files::crc32(text)};
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored) || files::checksum(file) != sum) {
    files::write_atomically(file, text, kTokenCache);
  }
}

PlannedCache CachePlanner::make_plan() {
  const std::vector<CachePlan::File> now = look_at_texts();
  const bool surveyed = read_plan(now);
  if (!surveyed) survey();
  const TrainedLines trained(recipe_, plan_.lines);
  const bool vocabularies = !surveyed || !has_vocabularies(trained.rule());
  if (vocabularies || !has_held_back(trained.rule())) {
    learn(trained, vocabularies);
  } else {
    tokenizers_ = load_tokenizers(recipe_, cache_);
  }
  for (size_t i = 0; i < now.size(); ++i) {
    plan_.texts[i].path = now[i].path;
    plan_.texts[i].modified = now[i].modified;
  }
  const TokenFileKind kind = kind_of_tokens(recipe_, plan_, tokenizers_);
  const bool same_tokens = plan_.fingerprint == kind.fingerprint;
  if (surveyed && !same_tokens) {
    message_("token_cache: " + files::quoted(cache_) + " holds tokens of other settings, and is made anew");
  }
  remove_old_files(!same_tokens);
  plan_.fingerprint = kind.fingerprint;
  std::string text = to_text(plan_);
  write_plan(text);
  return {.plan = std::move(plan_), .tokenizers = std::move(tokenizers_), .kind = kind, .text = std::move(text)};
}

}  // namespace

PlannedCache plan_cache(const Recipe& recipe, const std::filesystem::path& folder, bool continued,
                        const std::function<void(std::string_view)>& message, const CorpusOptions& options) {
  return CachePlanner(recipe, folder, continued, message, options).make_plan();
}

}  // namespace heed::train
