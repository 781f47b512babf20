// What a token cache makes of the files that it finds in its folder: what it reuses, makes anew and refuses.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/files.h"
#include "token_cache_cases.h"
#include "train/cache_plan.h"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

TEST_F(TokenCache, MakesTheMissingAndTheHalfPartsOnly) {
  Recipe recipe = recipe_of(kCacheCases[2], folder_.path());
  recipe.token_cache = (folder_ / "cache").string();
  const fs::path cache = recipe.token_cache;
  (void)load(recipe);
  const Files whole = files_of(cache);
  const auto parts = static_cast<int64_t>(
      std::count_if(whole.begin(), whole.end(), [](const auto& f) { return f.first.starts_with("part-"); }));
  ASSERT_GE(parts, 5);

  fs::remove(cache / "part-00001.tokens");
  fs::resize_file(cache / "part-00002.tokens", whole.at("part-00002.tokens").size() / 2);
  write_text(cache / ".part-00003.tokens.77-0.tmp", "half");
  write_text(cache / "notes of the user.txt", "mine");
  const Loaded again = load(recipe);
  EXPECT_CONTAINS(again.messages, "2 parts tokenised, " + std::to_string(parts - 2) + " reused");
  EXPECT_CONTAINS(again.messages, "part-00002.tokens\"");
  EXPECT_CONTAINS(again.messages, "the file is made anew");
  Files now = files_of(cache);
  EXPECT_EQ(now.erase("notes of the user.txt"), 1u);  // what is not ours stays
  EXPECT_TRUE(now == whole);

  for (const char* file : {"corpus.json", "source.model", "held_back.txt"}) {
    if (!whole.contains(file)) continue;
    write_text(cache / file, whole.at(file).substr(0, whole.at(file).size() / 2));
    const Loaded repaired = load(recipe);
    EXPECT_CONTAINS(repaired.messages, "tokenised");
    now = files_of(cache);
    now.erase("notes of the user.txt");
    EXPECT_TRUE(now == whole) << file;
  }
}

// A child process fills the cache and is killed, again and again, until it is done.
TEST_F(TokenCache, SurvivesKills) {
  Recipe recipe = recipe_of(kCacheCases[1], folder_.path(), 20000);
  const CorpusOptions options{.part_bytes = 50000};
  recipe.token_cache = (folder_ / "whole").string();
  (void)load(recipe, options);
  const Files whole = files_of(recipe.token_cache);
  recipe.token_cache = (folder_ / "killed").string();
  bool done = false;
  int kills = 0;
  for (unsigned attempt = 0; attempt < 200 && !done; ++attempt) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        (void)load(recipe, options);
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
    // Longer from time to time, so that it is done at last however slow the machine is.
    usleep(2000 + (philox(1, 2, attempt)[0] % 20000) * (1 + attempt / 4));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    kills += WIFSIGNALED(status) ? 1 : 0;
  }
  EXPECT_TRUE(done);
  EXPECT_GE(kills, 1);
  const Files killed = files_of(recipe.token_cache);
  for (const auto& [name, bytes] : killed)
    EXPECT_TRUE(whole.contains(name)) << name << " is left, " << kills << " kills";
  EXPECT_TRUE(killed == whole) << kills << " kills";
}

TEST_F(TokenCache, AnInterruptKeepsWhatIsDone) {
  Recipe recipe = recipe_of(kCacheCases[2], folder_.path());
  recipe.token_cache = (folder_ / "cache").string();
  std::atomic<bool> stop = false;
  int told = 0;
  const auto stop_at = [&](std::string_view text) {
    if (text.ends_with("% of the text is tokenised")) stop = ++told == 3;
  };
  const CorpusOptions options{.stop = &stop, .part_bytes = 700};
  const auto interrupted = [&] { (void)load_corpus(recipe, {}, false, stop_at, options); };
  EXPECT_CONTAINS(message_of(interrupted), "interrupted while the text becomes tokens; what is done is kept in");
  const std::string messages = load(recipe, {.part_bytes = 700}).messages;
  const size_t reused = messages.find(" tokenised, ");
  ASSERT_NE(reused, std::string::npos);
  EXPECT_GE(std::stoi(messages.substr(reused + 12)), 3) << messages;
}

TEST_F(TokenCache, NoticesAnotherTextAndOtherSettings) {
  Recipe recipe = recipe_of(kCacheCases[11], folder_.path());
  recipe.token_cache = (folder_ / "cache").string();
  (void)load(recipe);
  const auto expect_remade = [&](const std::string& why) {
    Loaded cached = load(recipe);
    EXPECT_CONTAINS(cached.messages, why);
    EXPECT_CONTAINS(cached.messages, " parts tokenised, 0 reused");
    Recipe plain = recipe;
    plain.token_cache.clear();
    Loaded memory = load(plain);
    expect_same_corpus(memory.corpus, cached.corpus, why);
    EXPECT_CONTAINS(load(recipe).messages, " 0 parts tokenised, ");
  };
  std::string text = read_text(recipe.train_source);
  text[10] = text[10] == 'a' ? 'b' : 'a';  // as many bytes
  write_text(recipe.train_source, text);
  fs::last_write_time(recipe.train_source, fs::last_write_time(recipe.train_source) + std::chrono::seconds(7));
  expect_remade("holds another text");
  write_text(recipe.train_source, text + "more\n");
  expect_remade("holds another text");
  recipe.vocabulary = 50;
  expect_remade("holds tokens of other settings");
  recipe.max_tokens_per_sentence = 20;
  expect_remade("holds tokens of other settings");
  recipe.valid_fraction = 0.2;
  expect_remade("holds tokens of other settings");
  recipe.tokenizer = "characters";
  expect_remade("holds tokens of other settings");

  // The same text at another time or place, and another seed, need no other tokens.
  fs::last_write_time(recipe.train_source, fs::last_write_time(recipe.train_source) + std::chrono::seconds(7));
  EXPECT_CONTAINS(load(recipe).messages, " 0 parts tokenised, ");
  fs::rename(recipe.train_source, folder_ / "moved.txt");
  recipe.train_source = (folder_ / "moved.txt").string();
  EXPECT_CONTAINS(load(recipe).messages, " 0 parts tokenised, ");
  recipe.seed = 77;
  EXPECT_CONTAINS(load(recipe).messages, " 0 parts tokenised, ");
}

TEST_F(TokenCache, ADamagedMegabyteIsNamedWhenItIsRead) {
  Recipe recipe = recipe_of(kCacheCases[11], folder_.path());
  recipe.token_cache = (folder_ / "cache").string();
  (void)load(recipe);
  const fs::path file = fs::path(recipe.token_cache) / "part-00001.tokens";
  std::string bytes = read_text(file);
  bytes[70] = static_cast<char>(bytes[70] ^ 1);
  write_text(file, bytes);
  Loaded loaded = load(recipe);
  const std::string message = message_of([&] { (void)bytes_of(*loaded.corpus.train, 0); });
  EXPECT_CONTAINS(message, "part-00001.tokens\"");
  EXPECT_CONTAINS(message, "Remove the file: the next run makes it anew");
  fs::remove(file);
  loaded = load(recipe);
  EXPECT_CONTAINS(loaded.messages, "1 part tokenised");
  (void)bytes_of(*loaded.corpus.train, 0);
}

TEST_F(TokenCache, AllRanksMustSeeTheFolder) {
  const Recipe recipe = recipe_of(kCacheCases[0], folder_.path());
  const std::string message = message_of([&] {
    distributed::run_in_process(2, [&](distributed::Communicator& ranks) {
      Recipe mine = recipe;
      mine.token_cache = (folder_ / ("cache" + std::to_string(ranks.rank()))).string();
      (void)load(mine, {.ranks = &ranks});
    });
  });
  EXPECT_CONTAINS(message, "a folder that all ranks share; rank 1");
}

TEST_F(TokenCache, SaysWhatIsWrongWithTexts) {
  Recipe recipe = recipe_of(kCacheCases[1], folder_.path());
  recipe.token_cache = (folder_ / "cache").string();
  const auto message = [&] { return message_of([&] { (void)load(recipe); }); };
  write_text(recipe.train_target, "one line\n");
  EXPECT_CONTAINS(message(), "target.txt: as many lines as " + recipe.train_source + ", 400; found 1");
  write_text(recipe.train_target, "caf\xe9\n");
  EXPECT_CONTAINS(message(), "target.txt\", line 1: valid UTF-8; found byte ");
  write_text(recipe.train_target, "");
  EXPECT_CONTAINS(message(), "the file is empty");
  write_text(recipe.train_target, std::string((16 << 20) + 1, 'x'));
  EXPECT_CONTAINS(message(), "lines of at most 16777216 bytes");
  recipe.train_target = (folder_ / "none").string();
  EXPECT_CONTAINS(message(), "No such file");
  recipe = recipe_of(kCacheCases[4], folder_.path());
  recipe.token_cache = (folder_ / "cache").string();
  write_text(recipe.pairs, "a\tb\nno tab\n");
  EXPECT_CONTAINS(message(), "train.txt, line 2: source <tab> target; found no tab");
  recipe.token_cache = recipe.pairs;
  EXPECT_CONTAINS(message(), "a folder that can be made");
  recipe.token_cache = "/proc/none";
  EXPECT_CONTAINS(message(), "/proc/none");
  recipe = recipe_of(kCacheCases[2], folder_.path());
  recipe.token_cache = (folder_ / "cache").string();
  recipe.max_tokens_per_sentence = 1;
  write_text(recipe.train_source, prose(400, 1));
  recipe.tokenizer = "characters";
  write_text(recipe.train_target, letters(400, 3));  // two or more each
  EXPECT_CONTAINS(message(), "longer than 1; found none of 400");
  recipe.subword_sampling = 0.2;
  recipe.tokenizer = "sentencepiece";
  EXPECT_CONTAINS(message_of([&] { validate(recipe); }), "token_cache: empty where subword_sampling");
}

TEST_F(TokenCache, RefusesPlansThatDoNotFit) {
  Recipe recipe = recipe_of(kCacheCases[5], folder_.path());
  recipe.token_cache = (folder_ / "cache").string();
  (void)load(recipe);
  const std::string plan = read_text(fs::path(recipe.token_cache) / "corpus.json");
  EXPECT_EQ(to_text(plan_from_text(plan, "x")), plan);
  for (size_t size = 0; size < plan.size(); size += 7) {
    EXPECT_CONTAINS(message_of([&] { (void)plan_from_text(plan.substr(0, size), "x"); }), "[token_cache] x: ");
  }
  for (size_t i = 0; i < plan.size(); i += 3) {
    std::string damaged = plan;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_CONTAINS(message_of([&] { (void)plan_from_text(damaged, "x"); }), "[token_cache] x: ") << i;
  }
  // With a checksum that fits.
  const std::string json = plan.substr(plan.find('\n') + 1);
  const auto sealed = [](const std::string& text) {
    const files::Checksum sum{.size = static_cast<int64_t>(text.size()), .crc = files::crc32(text)};
    return "heed-token-cache 1 " + files::to_string(sum) + "\n" + text;
  };
  EXPECT_EQ(sealed(json), plan);
  const auto with = [&](const std::string& key, const std::string& value) {
    io::Json object = io::parse_json(json).value;
    object[key] = io::parse_json(value).value;
    return io::json_text(object);
  };
  const struct {
    std::string json, expected;
  } cases[] = {
      {"", "x: "},
      {"[1]", "the key texts; found none"},
      {"{}", "the key texts; found none"},
      {with("texts", "3"), "texts: a list"},
      {with("texts", "[3]"), "the key path"},
      {with("texts", R"([{"path": 3}])"), "path: text"},
      {with("texts", R"([{"path": "a", "modified": 1, "bytes": -1, "crc32": 3}])"), "bytes: a number from 0"},
      {with("texts", R"([{"path": "a", "modified": 1, "bytes": 1, "crc32": 4294967296}])"), "crc32: a number from 0"},
      {with("texts", R"([{"path": "a", "modified": 18446744073709551615, "bytes": 1, "crc32": 3}])"), "modified"},
      {with("lines", "0"), "lines: a number from 1"},
      {with("lines", "1.5"), "lines: a number"},
      {with("lines", "\"3\""), "lines: a number"},
      {with("part_bytes", "0"), "part_bytes"},
      {with("parts", "[]"), "1 to 1,000,000 parts; found 0"},
      {with("parts", "[[0, 0]]"), "lists of three numbers"},
      {with("parts", "[[1, 0, 0]]"), "begins with the first line"},
      {with("parts", "[[0, 0, 0], [0, 5, 0]]"), "the first line of a part"},
      {with("parts", "[[0, 9, 0], [3, 5, 0]]"), "the begin of a part"},
      {with("parts", "[[0, 0, 0], [4000000, 5, 0]]"), "the first line of a part"},
      {with("tokenizers", "[]"), "tokenizers: a table"},
      {with("held_back", "{}"), "the key bytes"},
      {with("fingerprint", "-1"), "fingerprint"},
  };
  for (const auto& c : cases) {
    EXPECT_CONTAINS(message_of([&] { (void)plan_from_text(sealed(c.json), "x"); }), c.expected) << c.json;
  }
  // Places that lie elsewhere in the text, or outside of it, end with an Error.
  for (const char* parts : {"[[0, 0, 0], [5, 40, 0]]", "[[0, 0, 0], [5, 1000000000, 0]]"}) {
    write_text(fs::path(recipe.token_cache) / "corpus.json", sealed(with("parts", parts)));
    (void)message_of([&] { (void)load(recipe); });
  }
}

}  // namespace
}  // namespace heed::train
