#include "train/token_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <system_error>

#include "base/sha256.h"
#include "heed/error.h"
#include "train/cache_plan.h"
#include "train/vocabulary_trainer.h"

namespace heed::train {

namespace {

namespace fs = std::filesystem;
using io::Json;
using Message = std::function<void(std::string_view)>;

constexpr const char* kPlan = "corpus.json";
constexpr const char* kHeldBack = "held_back.txt";
constexpr int64_t kMostPlanBytes = int64_t{1} << 28;
constexpr int64_t kBlockBytes = int64_t{4} << 20;  // of text that is tokenised together

// Waits for another process that works in the folder.
class CacheLock {
 public:
  CacheLock(const fs::path& folder, const Message& message) {
    const fs::path file = folder / ".lock";
    descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    require(descriptor_ >= 0, kTokenCache, files::quoted(file), ": a file that can be made; ",
            std::generic_category().message(errno));
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
    if (errno == EWOULDBLOCK)
      message("token_cache: waiting for another process that works in " + files::quoted(folder));
    int result;
    do {
      result = ::flock(descriptor_, LOCK_EX);
    } while (result != 0 && errno == EINTR);
    const int error = errno;
    if (result == 0) return;
    ::close(descriptor_);
    fail(kTokenCache, files::quoted(folder), ": a folder that can be locked; ", std::generic_category().message(error));
  }
  ~CacheLock() { ::close(descriptor_); }
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;

 private:
  int descriptor_ = -1;
};

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

// Other ranks wait for the one that reads the text, or has the last part, for as long as that takes.
class WithoutTimeout {
 public:
  explicit WithoutTimeout(distributed::Communicator& ranks) : ranks_(ranks), before_(ranks.timeout()) {
    ranks_.set_timeout(0);
  }
  ~WithoutTimeout() { ranks_.set_timeout(before_); }
  WithoutTimeout(const WithoutTimeout&) = delete;
  WithoutTimeout& operator=(const WithoutTimeout&) = delete;

 private:
  distributed::Communicator& ranks_;
  double before_;
};

class Cache {
 public:
  Cache(const Recipe& recipe, const fs::path& folder, bool continued, const Message& message,
        const CorpusOptions& options, distributed::Communicator& ranks)
      : recipe_(recipe),
        cache_(recipe.token_cache),
        folder_(folder),
        continued_(continued),
        message_(message),
        options_(options),
        ranks_(ranks) {
    if (recipe.task == "translation") {
      sides_ =
          recipe.shared_vocabulary ? std::vector<std::string>{"source"} : std::vector<std::string>{"source", "target"};
    } else {
      sides_ = {recipe.task == "language_model" ? "target" : "source"};
    }
  }

  PreparedText prepare() {
    const WithoutTimeout patience(ranks_);
    std::unique_ptr<CacheLock> lock;  // until the last part is there
    std::string plan;
    if (ranks_.rank() == 0) {
      std::error_code error;
      fs::create_directories(cache_, error);
      require(!error, kTokenCache, files::quoted(cache_), ": a folder that can be made; ", error.message());
      lock = std::make_unique<CacheLock>(cache_, message_);
      plan = make_plan();
    }
    plan = ranks_.broadcast_text(plan, 0);
    if (ranks_.rank() != 0) take_plan(plan);
    make_parts();
    ranks_.barrier();
    return open();
  }

 private:
  // What rank 0 does: the text is read once to find its parts, and where vocabularies are missing once more.
  std::string make_plan();
  void take_plan(const std::string& text);
  void find_kind();
  void make_parts();
  bool has_part(size_t p, std::string& note) const;
  void make_part(size_t p);
  PreparedText open() const;

  [[nodiscard]] std::vector<CachePlan::File> look_at_texts() const;
  [[nodiscard]] bool is_same_text(const std::vector<CachePlan::File>& now, const CachePlan& before) const;
  void survey();
  void find_keep();
  void learn(bool vocabularies);
  void load_tokenizers(const fs::path& folder);
  [[nodiscard]] Json split() const;
  [[nodiscard]] Json vocabulary_settings() const;
  [[nodiscard]] bool has_vocabularies() const;
  [[nodiscard]] bool trains_on(const TrainingText& text) const;
  void remove_old_files(bool parts) const;
  void check_stop() const {
    require(options_.stop == nullptr || !options_.stop->load(), kTokenCache,
            "time to make the tokens; found an interrupt. What is done is kept in ", files::quoted(cache_),
            ": the same command goes on there");
  }
  [[nodiscard]] fs::path part_file(size_t p) const {
    std::string number = std::to_string(p);
    number.insert(0, number.size() < 5 ? 5 - number.size() : 0, '0');
    return cache_ / ("part-" + number + ".tokens");
  }
  [[nodiscard]] std::vector<fs::path> texts() const {
    if (!recipe_.pairs.empty()) return {recipe_.pairs};
    if (recipe_.task == "translation") return {recipe_.train_source, recipe_.train_target};
    return {recipe_.train_source};
  }
  [[nodiscard]] bool is_stream() const { return recipe_.task == "language_model"; }
  // Tokens of a sentence: the model must have room for its begin and end.
  [[nodiscard]] int64_t longest() const {
    const int64_t room = recipe_.model.max_length - (recipe_.task == "translation" ? 1 : 2);
    return std::min(recipe_.max_tokens_per_sentence, room);
  }

  const Recipe& recipe_;
  fs::path cache_, folder_;
  bool continued_;
  const Message& message_;
  const CorpusOptions& options_;
  distributed::Communicator& ranks_;
  std::vector<std::string> sides_;  // with a tokenizer of their own

  CachePlan plan_;
  std::shared_ptr<const text::Tokenizer> source_, target_;
  TokenFileKind kind_;
  std::optional<TrainingText> reader_;  // of all parts in turn: what is compressed can be read forwards only
  int64_t keep_ = 0;                    // lines before this one are trained on (not of pairs)
};

// Without reading them.
std::vector<CachePlan::File> Cache::look_at_texts() const {
  std::vector<CachePlan::File> found;
  for (const fs::path& path : texts()) {
    const files::InputFile file(path, kTokenCache);
    found.push_back({.path = fs::absolute(path).string(),
                     .modified = fs::last_write_time(path).time_since_epoch().count(),
                     .checksum = {.size = file.size(), .crc = 0}});
  }
  return found;
}

bool Cache::is_same_text(const std::vector<CachePlan::File>& now, const CachePlan& before) const {
  if (before.texts.size() != now.size() || before.part_bytes != options_.part_bytes) return false;
  for (size_t i = 0; i < now.size(); ++i) {
    const CachePlan::File& then = before.texts[i];
    if (now[i].checksum.size != then.checksum.size) return false;
    const bool untouched = now[i].path == then.path && now[i].modified == then.modified;
    if (!untouched && files::checksum(now[i].path) != then.checksum) return false;
  }
  return true;
}

void Cache::survey() {
  plan_ = {};
  plan_.part_bytes = options_.part_bytes;
  for (const fs::path& file : texts())
    plan_.texts.push_back({.path = {}, .modified = 0, .checksum = files::checksum(file)});
  TrainingText text(recipe_);
  TrainingText::Place begin = text.place();
  plan_.parts.push_back(begin);
  for (TrainingText::Place at = begin; text.next(); at = text.place()) {
    if (at.source - begin.source + at.target - begin.target >= options_.part_bytes) {
      plan_.parts.push_back(at);
      begin = at;
      check_stop();
    }
  }
  plan_.lines = text.number() + 1;
}

void Cache::find_keep() {
  keep_ = plan_.lines;
  if (recipe_.pairs.empty() && !split().is_null()) {
    keep_ = static_cast<int64_t>((1.0 - recipe_.valid_fraction) * static_cast<double>(plan_.lines));
  }
}

// Of pairs a hash of the source decides, of other texts the line's number; nothing where no line is held back.
Json Cache::split() const {
  const bool of_tokens = is_stream() && recipe_.tokenizer == "characters";
  if (!recipe_.pairs.empty()) return recipe_.valid_fraction > 0 ? Json{{"pairs", recipe_.valid_fraction}} : Json();
  const bool splits = recipe_.task != "translation" && recipe_.valid_source.empty() && recipe_.valid_fraction > 0;
  return splits && !of_tokens ? Json{{"lines", recipe_.valid_fraction}} : Json();
}

bool Cache::trains_on(const TrainingText& text) const {
  return recipe_.pairs.empty() ? text.number() < keep_ : !is_held_back(text.source(), recipe_.valid_fraction);
}

// But for the seed, which counts where it drew lines.
Json Cache::vocabulary_settings() const {
  Json settings = {{"task", recipe_.task}, {"tokenizer", recipe_.tokenizer}, {"split", split()}};
  if (recipe_.task == "translation") settings["shared_vocabulary"] = recipe_.shared_vocabulary;
  if (recipe_.tokenizer == "sentencepiece") {
    settings["vocabulary"] = recipe_.vocabulary;
    settings["bpe"] = recipe_.bpe;
    settings["vocabulary_lines"] = recipe_.vocabulary_lines;
  }
  return settings;
}

bool Cache::has_vocabularies() const {
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
  return settings == vocabulary_settings();
}

void Cache::load_tokenizers(const fs::path& folder) {
  const auto load = [&](text::Side side) { return text::Tokenizer::load(folder, side); };
  if (recipe_.task == "language_model") {
    target_ = load(text::Side::target);
    return;
  }
  source_ = load(text::Side::source);
  if (recipe_.task == "translation") target_ = recipe_.shared_vocabulary ? source_ : load(text::Side::target);
}

void Cache::learn(bool vocabularies) {
  const bool trains = vocabularies && !continued_;
  VocabularyTrainer trainer(recipe_, message_);
  if (trains || !split().is_null()) {
    TrainingText text(recipe_);
    std::unique_ptr<files::AtomicFile> held_back;
    // With a mark and line ends that readers take away, so that no line loses its own.
    if (!split().is_null()) {
      held_back = std::make_unique<files::AtomicFile>(cache_ / kHeldBack, kTokenCache);
      held_back->write("\xef\xbb\xbf");
    }
    int64_t trained = 0;
    while (text.next()) {
      if (text.number() % 100000 == 0) check_stop();
      if (trains_on(text)) {
        if (trains) trainer.add(0, trained, text.source());
        if (trains && recipe_.task == "translation") trainer.add(1, trained, text.target());
        ++trained;
      } else if (held_back) {
        held_back->write(text.line());
        held_back->write("\r\n");
      }
    }
    const std::string file = texts()[0].string();
    require(trained > 0, "train", file, recipe_.pairs.empty() ? ": lines" : ": pairs",
            " outside valid_fraction; found ", "none of ", plan_.lines);
    if (held_back) held_back->commit();
  }
  std::error_code ignored;
  plan_.split = split();
  plan_.held_back.reset();
  if (!plan_.split.is_null()) {
    plan_.held_back = files::checksum(cache_ / kHeldBack);
  } else {
    fs::remove(cache_ / kHeldBack, ignored);
  }
  if (!vocabularies) {
    load_tokenizers(cache_);
    return;
  }
  plan_.vocabulary = Json();
  if (continued_) {
    load_tokenizers(folder_);
  } else {
    auto made = trainer.train();
    source_ = made.source;
    target_ = made.target;
    plan_.vocabulary = vocabulary_settings();
    if (made.sampled) plan_.vocabulary["seed"] = recipe_.seed;
  }
  plan_.tokenizers.clear();
  for (const std::string& side : sides_) {
    (side == "source" ? source_ : target_)->save(cache_, side == "source" ? text::Side::source : text::Side::target);
    const auto checksum = tokenizer_checksum(cache_, side);
    require(checksum.has_value(), kTokenCache, files::quoted(cache_), ": the tokenizer that was saved; found none");
    plan_.tokenizers[side] = *checksum;
  }
}

// Parts, where they are those of other tokens, and what a killed process was writing.
void Cache::remove_old_files(bool parts) const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cache_, error)) {
    const std::string name = entry.path().filename().string();
    const bool part = name.starts_with("part-") && name.ends_with(".tokens");
    const auto is_of = [&](std::string_view file) { return name.starts_with("." + std::string(file)); };
    const bool temporary = name.ends_with(".tmp") && (is_of("part-") || is_of(kPlan) || is_of(kHeldBack) ||
                                                      is_of("source.") || is_of("target."));  // (tokenizers)
    std::error_code ignored;
    if (temporary || (parts && part)) fs::remove(entry.path(), ignored);
  }
}

std::string Cache::make_plan() {
  const fs::path file = cache_ / kPlan;
  const std::vector<CachePlan::File> now = look_at_texts();
  bool surveyed = false;
  std::error_code ignored;
  if (fs::exists(file, ignored)) {
    try {
      plan_ = plan_from_text(files::read_all(file, kMostPlanBytes, kTokenCache), files::quoted(file));
      surveyed = is_same_text(now, plan_);
      if (!surveyed) message_("token_cache: " + files::quoted(cache_) + " holds another text, and is made anew");
    } catch (const Error& error) {
      message_(std::string(error.what()) + "; the file is made anew");
    }
  }
  if (!surveyed) survey();
  find_keep();
  const bool vocabularies = !surveyed || !has_vocabularies();
  const bool held_back =
      plan_.split == split() && (!plan_.held_back || (fs::is_regular_file(cache_ / kHeldBack, ignored) &&
                                                      files::checksum(cache_ / kHeldBack) == *plan_.held_back));
  if (vocabularies || !held_back) {
    learn(vocabularies);
  } else {
    load_tokenizers(cache_);
  }
  for (size_t i = 0; i < now.size(); ++i) {
    plan_.texts[i].path = now[i].path;
    plan_.texts[i].modified = now[i].modified;
  }
  find_kind();
  const bool same_tokens = plan_.fingerprint == kind_.fingerprint;
  if (surveyed && !same_tokens) {
    message_("token_cache: " + files::quoted(cache_) + " holds tokens of other settings, and is made anew");
  }
  remove_old_files(!same_tokens);
  plan_.fingerprint = kind_.fingerprint;
  const std::string text = to_text(plan_);
  const files::Checksum sum{.size = static_cast<int64_t>(text.size()), .crc = files::crc32(text)};
  if (!fs::is_regular_file(file, ignored) || files::checksum(file) != sum) {
    files::write_atomically(file, text, kTokenCache);
  }
  return text;
}

void Cache::take_plan(const std::string& text) {
  const fs::path file = cache_ / kPlan;
  std::error_code ignored;
  const bool same = fs::is_regular_file(file, ignored) && files::read_all(file, kMostPlanBytes, kTokenCache) == text;
  require(same, kTokenCache, files::quoted(cache_), ": a folder that all ranks share; ", ranks_.name_of(ranks_.rank()),
          " does not find there what ", ranks_.name_of(0), " wrote");
  plan_ = plan_from_text(text, files::quoted(file));
  find_keep();
  load_tokenizers(cache_);
  find_kind();
}

void Cache::find_kind() {
  const int64_t vocabulary = std::max(source_ ? source_->vocabulary() : 0, target_ ? target_->vocabulary() : 0);
  kind_ = {.sides = is_stream()                     ? 0
                    : recipe_.task == "translation" ? 2
                                                    : 1,
           .id_bytes = vocabulary <= 65536 ? 2 : 4,
           .vocabulary = vocabulary};
  Json what = {{"stream", is_stream()}, {"longest", is_stream() ? 0 : longest()}, {"split", plan_.split}};
  for (const CachePlan::File& file : plan_.texts) what["texts"].push_back(files::to_string(file.checksum));
  for (const auto& [side, checksum] : plan_.tokenizers) what["tokenizers"].push_back(files::to_string(checksum));
  for (const auto& place : plan_.parts) what["parts"].push_back({place.line, place.source, place.target});
  const auto hash = sha256(io::json_text(what));
  kind_.fingerprint = 0;
  for (size_t i = 0; i < sizeof kind_.fingerprint; ++i) kind_.fingerprint = (kind_.fingerprint << 8) | hash[i];
}

// Whether the part is there. `note` says what is wrong with one that is there and damaged.
bool Cache::has_part(size_t p, std::string& note) const {
  std::error_code ignored;
  if (!fs::exists(part_file(p), ignored)) return false;
  TokenFileKind kind = kind_;
  kind.part = static_cast<int64_t>(p);
  try {
    const TokenFile file(part_file(p), kind);
    return true;
  } catch (const Error& error) {
    note = error.what();
    return false;
  }
}

void Cache::make_part(size_t p) {
  TokenFileKind kind = kind_;
  kind.part = static_cast<int64_t>(p);
  TokenFileWriter writer(part_file(p), kind);
  if (!reader_) reader_.emplace(recipe_);
  TrainingText& text = *reader_;
  text.skip_to(plan_.parts[p]);
  const int64_t end = p + 1 < plan_.parts.size() ? plan_.parts[p + 1].line : plan_.lines;
  const bool characters = recipe_.tokenizer == "characters";
  std::vector<std::string> lines[2];
  int64_t bytes = 0;
  const auto write_block = [&] {
    std::vector<Ids> ids[2];
    for (int s = 0; s < std::max(1, kind.sides); ++s) {
      ids[s] = encode_all(s == 0 && source_ ? *source_ : *target_, lines[s]);
      lines[s].clear();
    }
    for (size_t i = 0; i < ids[0].size(); ++i) {
      writer.add_line();
      if (is_stream()) {
        if (!characters) ids[0][i].push_back(target_->special().end);
        writer.add_to_stream(ids[0][i]);
        continue;
      }
      Ids sides[2];
      bool fits = true;
      for (int s = 0; s < kind.sides; ++s) {
        sides[s] = std::move(ids[s][i]);
        fits = fits && !sides[s].empty() && static_cast<int64_t>(sides[s].size()) <= longest();
      }
      if (fits) {
        writer.add_sentence(std::span(sides, static_cast<size_t>(kind.sides)));
      } else {
        writer.leave_out();
      }
    }
    bytes = 0;
    check_stop();
  };
  while (text.place().line < end && text.next()) {
    if (!trains_on(text)) continue;
    lines[0].emplace_back(text.source());
    if (is_stream() && characters) lines[0].back() += '\n';
    if (kind.sides == 2) lines[1].emplace_back(text.target());
    bytes += static_cast<int64_t>(text.source().size() + text.target().size());
    if (bytes >= kBlockBytes || lines[0].size() >= 1 << 16) write_block();
  }
  write_block();
  writer.commit();
}

void Cache::make_parts() {
  int64_t made = 0, found = 0;
  std::string notes;
  for (auto p = static_cast<size_t>(ranks_.rank()); p < plan_.parts.size(); p += static_cast<size_t>(ranks_.size())) {
    std::string note;
    if (has_part(p, note)) {
      ++found;
      continue;
    }
    if (!note.empty()) notes += note + "; the file is made anew\n";
    make_part(p);
    ++made;
    const int64_t share = (static_cast<int64_t>(plan_.parts.size()) + ranks_.size() - 1) / ranks_.size();
    if (ranks_.rank() == 0 && share >= 10 && (made + found) % (share / 10) == 0) {
      message_("token_cache: " + std::to_string(100 * (made + found) / share) + " % of the text is tokenised");
    }
  }
  const auto all = ranks_.gather_text(std::to_string(made) + " " + std::to_string(found) + "\n" + notes, 0);
  if (ranks_.rank() != 0) return;
  int64_t all_made = 0, all_found = 0;
  for (const std::string& text : all) {
    std::istringstream stream(text);
    stream >> made >> found;
    all_made += made;
    all_found += found;
    std::string line;
    std::getline(stream, line);
    while (std::getline(stream, line)) message_(line);
  }
  message_("token_cache: " + std::to_string(plan_.lines) + " lines, " + std::to_string(all_made) +
           (all_made == 1 ? " part" : " parts") + " tokenised, " + std::to_string(all_found) + " reused");
}

PreparedText Cache::open() const {
  std::vector<fs::path> files;
  for (size_t p = 0; p < plan_.parts.size(); ++p) files.push_back(part_file(p));
  PreparedText result{.source = source_, .target = target_, .tokens = nullptr, .held_back = {}};
  result.tokens = std::make_shared<TokenParts>(files, kind_);
  if (plan_.held_back && plan_.held_back->size > 3) result.held_back = text::read_lines(cache_ / kHeldBack);
  return result;
}

}  // namespace

PreparedText prepare_tokens(const Recipe& recipe, const fs::path& folder, bool continued, const Message& message,
                            const CorpusOptions& options) {
  const std::unique_ptr<distributed::Communicator> alone = options.ranks == nullptr ? distributed::single() : nullptr;
  return Cache(recipe, folder, continued, message, options, alone ? *alone : *options.ranks).prepare();
}

}  // namespace heed::train
