#include "train/token_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "heed/error.h"
#include "train/cache_contents.h"
#include "train/cache_planner.h"

namespace heed::train {

namespace {

namespace fs = std::filesystem;
using Message = std::function<void(std::string_view)>;

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

// The parts of the text as tokens, of which each rank makes some and all ranks open all.
class Cache {
 public:
  Cache(const Recipe& recipe, const Message& message, const CorpusOptions& options, distributed::Communicator& ranks)
      : recipe_(recipe), cache_(recipe.token_cache), message_(message), options_(options), ranks_(ranks) {}

  PreparedText prepare(const fs::path& folder, bool continued) {
    const distributed::LongerTimeout patience(ranks_, distributed::LongerTimeout::kNoLimit);
    std::unique_ptr<CacheLock> lock;  // until all ranks have opened the parts
    std::string plan;
    if (ranks_.rank() == 0) {
      std::error_code error;
      fs::create_directories(cache_, error);
      require(!error, kTokenCache, files::quoted(cache_), ": a folder that can be made; ", error.message());
      lock = std::make_unique<CacheLock>(cache_, message_);
      PlannedCache planned = plan_cache(recipe_, folder, continued, message_, options_);
      plan = std::move(planned.text);
      plan_ = std::move(planned.plan);
      tokenizers_ = std::move(planned.tokenizers);
      kind_ = planned.kind;
    }
    plan = ranks_.broadcast_text(plan, 0);
    if (ranks_.rank() != 0) take_plan(plan);
    trained_.emplace(recipe_, plan_.lines);
    make_parts();
    ranks_.barrier();
    PreparedText text = open();
    ranks_.barrier();  // the next process that gets the lock may remove the parts
    return text;
  }

 private:
  void take_plan(const std::string& text);
  void require_same_text() const;
  void make_parts();
  bool has_part(size_t p, std::string& note) const;
  void make_part(size_t p);
  PreparedText open() const;

  [[nodiscard]] fs::path part_file(size_t p) const {
    std::string number = std::to_string(p);
    number.insert(0, number.size() < 5 ? 5 - number.size() : 0, '0');
    return cache_ / ("part-" + number + ".tokens");
  }

  const Recipe& recipe_;
  fs::path cache_;
  const Message& message_;
  const CorpusOptions& options_;
  distributed::Communicator& ranks_;

  CachePlan plan_;
  TextTokenizers tokenizers_;
  TokenFileKind kind_;
  std::optional<TrainedLines> trained_;
  std::optional<TrainingText> reader_;  // of all parts in turn: what is compressed can be read forwards only
};

// The plan that rank 0 wrote, on another rank.
void Cache::take_plan(const std::string& text) {
  const fs::path file = cache_ / kCachePlanFile;
  std::error_code ignored;
  const bool same = fs::is_regular_file(file, ignored) && files::read_all(file, kMostPlanBytes, kTokenCache) == text;
  require(same, kTokenCache, files::quoted(cache_), ": a folder that all ranks share; ", ranks_.name_of(ranks_.rank()),
          " does not find there what ", ranks_.name_of(0), " wrote");
  plan_ = plan_from_text(text, files::quoted(file));
  tokenizers_ = load_tokenizers(recipe_, cache_);
  kind_ = kind_of_tokens(recipe_, plan_, tokenizers_);
}

// Rank 0 has compared its text with the plan. Others may see another one, under the same name on another machine.
void Cache::require_same_text() const {
  if (ranks_.rank() == 0) return;
  const std::vector<fs::path> files = training_files(recipe_);
  for (size_t i = 0; i < files.size(); ++i) {
    require(files::checksum(files[i]) == plan_.texts[i].checksum, kTokenCache, files::quoted(files[i]),
            ": the text that ", ranks_.name_of(0), " reads; ", ranks_.name_of(ranks_.rank()),
            " finds another one there");
  }
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
  if (!reader_) {
    require_same_text();
    reader_.emplace(recipe_);
  }
  TrainingText& text = *reader_;
  text.skip_to(plan_.parts[p]);
  const int64_t longest = longest_sentence(recipe_);
  const int64_t end = p + 1 < plan_.parts.size() ? plan_.parts[p + 1].line : plan_.lines;
  const bool stream = is_stream(recipe_), characters = recipe_.tokenizer == "characters";
  std::vector<std::string> lines[2];
  int64_t bytes = 0;
  const auto write_block = [&] {
    std::vector<Ids> ids[2];
    for (int s = 0; s < std::max(1, kind.sides); ++s) {
      ids[s] = encode_all(s == 0 && tokenizers_.source ? *tokenizers_.source : *tokenizers_.target, lines[s]);
      lines[s].clear();
    }
    for (size_t i = 0; i < ids[0].size(); ++i) {
      writer.add_line();
      if (stream) {
        if (!characters) ids[0][i].push_back(tokenizers_.target->special().end);
        writer.add_to_stream(ids[0][i]);
        continue;
      }
      Ids sides[2];
      bool fits = true;
      for (int s = 0; s < kind.sides; ++s) {
        sides[s] = std::move(ids[s][i]);
        fits = fits && !sides[s].empty() && static_cast<int64_t>(sides[s].size()) <= longest;
      }
      if (fits) {
        writer.add_sentence(std::span(sides, static_cast<size_t>(kind.sides)));
      } else {
        writer.leave_out();
      }
    }
    bytes = 0;
    require_no_interrupt(options_, cache_);
  };
  while (text.place().line < end && text.next()) {
    if (!trained_->contains(text)) continue;
    lines[0].emplace_back(text.source());
    if (stream && characters) lines[0].back() += '\n';
    if (kind.sides == 2) lines[1].emplace_back(text.target());
    bytes += static_cast<int64_t>(text.source().size() + text.target().size());
    if (bytes >= kBlockBytes || lines[0].size() >= 1 << 16) write_block();
  }
  write_block();
  require(text.place().line == end, kTokenCache, "line ", end,
          " of the training text; found its end before, after line ", text.place().line);
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
  PreparedText result{.source = tokenizers_.source, .target = tokenizers_.target, .tokens = nullptr, .held_back = {}};
  result.tokens = std::make_shared<TokenParts>(files, kind_);
  if (plan_.held_back && plan_.held_back->size > 3) result.held_back = text::read_lines(cache_ / kHeldBackFile);
  return result;
}

}  // namespace

PreparedText prepare_tokens(const Recipe& recipe, const fs::path& folder, bool continued, const Message& message,
                            const CorpusOptions& options) {
  const std::unique_ptr<distributed::Communicator> alone = options.ranks == nullptr ? distributed::single() : nullptr;
  return Cache(recipe, message, options, alone ? *alone : *options.ranks).prepare(folder, continued);
}

}  // namespace heed::train
