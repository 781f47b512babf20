// A text in a token cache trains as one in memory does, to the bit; and the cache survives what happens to folders.
#include "train/token_cache.h"

#include <sys/wait.h>

#include <csignal>
#include <map>
#include <set>

#include "heed/cpu.h"
#include "toy.h"
#include "train/cache_plan.h"
#include "train/vocabulary_trainer.h"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>;

Files files_of(const fs::path& folder) {
  Files files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_text(entry.path());
  }
  return files;
}

// Lines that differ in length and case, with empty and long ones and both line ends.
std::string prose(int64_t count, uint64_t seed) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    const auto draw = philox(seed, 7, static_cast<uint64_t>(i));
    const uint32_t words = draw[0] % 37 == 0 ? 0 : draw[0] % 41 == 0 ? 60 : 1 + draw[1] % 9;
    for (uint32_t w = 0; w < words; ++w) {
      const auto letters = philox(seed, 8 + w, static_cast<uint64_t>(i));
      if (w > 0) text += ' ';
      for (uint32_t k = 0; k < 1 + letters[0] % 4; ++k) text += static_cast<char>('a' + letters[1 + k % 3] % 11);
      if (letters[2] % 9 == 0) text += "\xc3\xa4";
    }
    text += draw[2] % 5 == 0 ? "\r\n" : "\n";
  }
  return text;
}

struct Case {
  std::string name, task, tokenizer;
  bool shared = false, pairs = false, bpe = false, own_valid = false, gzip = false;
  double valid_fraction = 0;
};

const Case kCases[] = {
    {.name = "translation, pieces", .task = "translation", .tokenizer = "pieces", .shared = true, .own_valid = true},
    {.name = "translation, characters", .task = "translation", .tokenizer = "characters"},
    {.name = "translation, unigram", .task = "translation", .tokenizer = "sentencepiece", .own_valid = true},
    {.name = "translation, shared bpe",
     .task = "translation",
     .tokenizer = "sentencepiece",
     .shared = true,
     .bpe = true},
    {.name = "pairs", .task = "translation", .tokenizer = "sentencepiece", .pairs = true, .valid_fraction = 0.1},
    {.name = "pairs, gzip",
     .task = "translation",
     .tokenizer = "pieces",
     .pairs = true,
     .gzip = true,
     .valid_fraction = 0.1},
    {.name = "text, characters", .task = "language_model", .tokenizer = "characters", .valid_fraction = 0.07},
    {.name = "text, pieces", .task = "language_model", .tokenizer = "pieces", .valid_fraction = 0.07},
    {.name = "text, unigram", .task = "language_model", .tokenizer = "sentencepiece", .own_valid = true},
    {.name = "masked, characters", .task = "masked_language_model", .tokenizer = "characters", .valid_fraction = 0.07},
    {.name = "masked, pieces", .task = "masked_language_model", .tokenizer = "pieces", .own_valid = true},
    {.name = "masked, unigram", .task = "masked_language_model", .tokenizer = "sentencepiece", .valid_fraction = 0.07},
};

// The recipe of a case; its texts are written into `folder`.
Recipe recipe_of(const Case& c, const fs::path& folder, int64_t lines = 400) {
  Recipe recipe;
  recipe.task = c.task;
  recipe.tokenizer = c.tokenizer;
  recipe.shared_vocabulary = c.shared;
  recipe.bpe = c.bpe;
  recipe.vocabulary = 60;
  recipe.valid_fraction = c.valid_fraction;
  recipe.preset = "tiny";
  const auto architecture = c.task == "translation"      ? models::Architecture::encoder_decoder
                            : c.task == "language_model" ? models::Architecture::decoder_only
                                                         : models::Architecture::encoder_only;
  recipe.model = models::preset("tiny", architecture);
  recipe.model.encoder_layers = std::min<int64_t>(1, recipe.model.encoder_layers);
  recipe.model.decoder_layers = std::min<int64_t>(1, recipe.model.decoder_layers);
  recipe.model.width = 16;
  recipe.model.feed_forward = 32;
  recipe.model.heads = 2;
  recipe.model.max_length = 64;
  recipe.context = 16;
  recipe.max_tokens_per_sentence = 50;
  recipe.batch_tokens = 256;
  recipe.max_updates = 6;
  recipe.validate_every = 3;
  recipe.seed = 3;
  std::string text = "\xef\xbb\xbf" + prose(lines, 1);
  if (c.pairs) {
    std::istringstream source(prose(lines, 1)), target(prose(lines, 2));
    text.clear();
    for (std::string s, t; std::getline(source, s) && std::getline(target, t);) {
      if (s.ends_with('\r')) s.pop_back();
      text += s + "\t" + t + (text.size() % 3 == 0 ? "\tby someone\n" : "\n");
    }
  }
  const fs::path file = folder / "train.txt";
  write_text(file, text);
  if (c.gzip) {
    EXPECT_EQ(std::system(("gzip -nkf " + file.string()).c_str()), 0);
  }
  const std::string name = c.gzip ? file.string() + ".gz" : file.string();
  (c.pairs ? recipe.pairs : recipe.train_source) = name;
  if (c.task == "translation" && !c.pairs) {
    write_text(folder / "target.txt", prose(lines, 2));
    recipe.train_target = (folder / "target.txt").string();
  }
  if (c.own_valid) {
    write_text(folder / "valid.txt", prose(30, 5));
    recipe.valid_source = recipe.valid_target = (folder / "valid.txt").string();
  }
  return recipe;
}

struct Loaded {
  Corpus corpus;
  std::string messages;
};

Loaded load(const Recipe& recipe, const CorpusOptions& options = {.part_bytes = 2000}, const fs::path& folder = {}) {
  Loaded loaded;
  loaded.corpus = load_corpus(
      recipe, folder, !folder.empty(), [&](std::string_view text) { loaded.messages += std::string(text) + "\n"; },
      options);
  return loaded;
}

std::string bytes_of(const Tensor& tensor) {
  if (!tensor.defined()) return "none";
  return to_string(tensor.shape()) +
         std::string(reinterpret_cast<const char*>(tensor.data<int32_t>()), static_cast<size_t>(4 * tensor.numel()));
}

std::string bytes_of(DataSet& data, int64_t epoch) {
  std::string bytes;
  for (int64_t i = 0; i < data.batches(epoch); ++i) {
    const Batch batch = data.batch(epoch, i);
    for (const Tensor& tensor : {batch.source, batch.source_lengths, batch.input, batch.output})
      bytes += bytes_of(tensor);
    bytes += std::to_string(batch.tokens) + " " + std::to_string(batch.sentences) + ";";
  }
  return bytes;
}

void expect_same(Corpus& a, Corpus& b, const std::string& what) {
  EXPECT_EQ(a.checksum, b.checksum) << what;
  EXPECT_EQ(a.batch_tokens, b.batch_tokens) << what;
  EXPECT_EQ(a.held_back, b.held_back) << what;
  EXPECT_EQ(a.references, b.references) << what;
  EXPECT_EQ(a.bleu_sources, b.bleu_sources) << what;
  EXPECT_EQ(a.mask_id, b.mask_id) << what;
  ASSERT_EQ(a.valid == nullptr, b.valid == nullptr) << what;
  for (const int64_t epoch : {0, 1, 5}) EXPECT_TRUE(bytes_of(*a.train, epoch) == bytes_of(*b.train, epoch)) << what;
  if (a.valid) {
    EXPECT_TRUE(bytes_of(*a.valid, 0) == bytes_of(*b.valid, 0)) << what;
  }
}

class TokenCache : public ::testing::Test {
 protected:
  void SetUp() override { set_num_threads(1); }
  void TearDown() override { set_num_threads(before_); }

  TemporaryFolder folder_;

 private:
  int before_ = num_threads();
};

TEST_F(TokenCache, GivesTheBatchesOfMemoryForAllTasksAndTokenizers) {
  for (const Case& c : kCases) {
    Recipe recipe = recipe_of(c, folder_.path());
    recipe.valid_beam = c.task == "translation" && (c.own_valid || c.pairs) ? 2 : 0;
    for (const int64_t batch_tokens : {256, 0}) {
      recipe.batch_tokens = batch_tokens;
      recipe.token_cache.clear();
      Loaded memory = load(recipe);
      recipe.token_cache = (folder_ / ("cache of " + c.name)).string();
      Loaded cached = load(recipe);
      expect_same(memory.corpus, cached.corpus, c.name);
      if (batch_tokens > 0) {
        EXPECT_GE(files_of(recipe.token_cache).size(), 6u) << c.name << ": several parts";
        EXPECT_CONTAINS(cached.messages, " parts tokenised, 0 reused");
        // What is said about the text is the same.
        for (std::istringstream lines(memory.messages); std::getline(lines, memory.messages);) {
          EXPECT_CONTAINS(cached.messages, memory.messages) << c.name;
        }
      } else {
        EXPECT_CONTAINS(cached.messages, " 0 parts tokenised, ");
      }
    }
  }
}

TEST_F(TokenCache, TrainsTheSameWeights) {
  for (const char* name : {"pairs", "translation, pieces", "text, characters", "text, unigram", "masked, pieces"}) {
    const Case& c =
        *std::find_if(std::begin(kCases), std::end(kCases), [&](const Case& each) { return each.name == name; });
    Recipe recipe = recipe_of(c, folder_.path());
    const fs::path memory = folder_ / (c.name + " memory"), cached = folder_ / (c.name + " cached");
    EXPECT_EQ(run(recipe, memory), Outcome::finished);
    recipe.token_cache = (folder_ / (c.name + " cache")).string();
    EXPECT_EQ(run(recipe, cached), Outcome::finished);
    EXPECT_TRUE(same_bytes(memory / "model.safetensors", cached / "model.safetensors"));
    if (c.pairs) {
      EXPECT_TRUE(same_bytes(memory / "heldout.tsv", cached / "heldout.tsv"));
    }
  }
}

TEST_F(TokenCache, SeveralRanksTrainFromItWithTheSameBits) {
  Recipe recipe = recipe_of(kCases[4], folder_.path());
  recipe.shards = 2;
  EXPECT_EQ(run(recipe, folder_ / "memory"), Outcome::finished);
  recipe.token_cache = (folder_ / "cache").string();
  distributed::run_in_process(2, [&](distributed::Communicator& ranks) {
    EXPECT_EQ(train(recipe, folder_ / "cached", false, {}, ranks), Outcome::finished);
  });
  EXPECT_TRUE(same_bytes(folder_ / "memory/model.safetensors", folder_ / "cached/model.safetensors"));
  EXPECT_TRUE(same_bytes(folder_ / "memory/heldout.tsv", folder_ / "cached/heldout.tsv"));
  EXPECT_TRUE(same_bytes(folder_ / "memory/source.model", folder_ / "cached/source.model"));
}

TEST_F(TokenCache, ARunMayChangeBetweenMemoryAndCache) {
  Recipe recipe = recipe_of(kCases[4], folder_.path());
  EXPECT_EQ(run(recipe, folder_ / "whole"), Outcome::finished);
  recipe.max_updates = 2;
  EXPECT_EQ(run(recipe, folder_ / "parts"), Outcome::finished);
  recipe.max_updates = 4;
  recipe.token_cache = (folder_ / "cache").string();
  EXPECT_EQ(run(recipe, folder_ / "parts", true), Outcome::finished);
  recipe.max_updates = 5;
  EXPECT_EQ(run(recipe, folder_ / "parts", true), Outcome::finished);
  recipe.max_updates = 6;
  recipe.token_cache.clear();
  EXPECT_EQ(run(recipe, folder_ / "parts", true), Outcome::finished);
  const std::string newest = "checkpoints/step-00000006/model.safetensors";
  EXPECT_TRUE(same_bytes(folder_ / "whole" / newest, folder_ / "parts" / newest));
  // A cache that a continued run has filled holds the folder's tokenizers. They are those that a new run trains.
  recipe.token_cache = (folder_ / "cache").string();
  Loaded again = load(recipe, {});
  EXPECT_CONTAINS(again.messages, "0 parts tokenised, 1 reused");
}

TEST_F(TokenCache, IsMadeByAnyNumberOfRanksWithTheSameBytes) {
  for (const Case& c : {kCases[2], kCases[5], kCases[6], kCases[11]}) {
    Recipe recipe = recipe_of(c, folder_.path());
    Loaded memory = load(recipe);
    Files one;
    for (int ranks = 1; ranks <= 4; ++ranks) {
      recipe.token_cache = (folder_ / (c.name + std::to_string(ranks))).string();
      distributed::run_in_process(ranks, [&](distributed::Communicator& ranks_of_run) {
        Loaded loaded = load(recipe, {.ranks = &ranks_of_run, .part_bytes = 2000});
        EXPECT_EQ(loaded.corpus.checksum, memory.corpus.checksum);
        EXPECT_TRUE(bytes_of(*loaded.corpus.train, 1) == bytes_of(*memory.corpus.train, 1));
        const bool told = loaded.messages.find(" parts tokenised, 0 reused") != std::string::npos;
        EXPECT_EQ(told, ranks_of_run.rank() == 0);
      });
      const Files files = files_of(recipe.token_cache);
      if (ranks == 1) one = files;
      EXPECT_TRUE(files == one) << c.name << ", " << ranks << " ranks";
    }
  }
}

TEST_F(TokenCache, AllRanksMustSeeTheFolder) {
  const Recipe recipe = recipe_of(kCases[0], folder_.path());
  const std::string message = message_of([&] {
    distributed::run_in_process(2, [&](distributed::Communicator& ranks) {
      Recipe mine = recipe;
      mine.token_cache = (folder_ / ("cache" + std::to_string(ranks.rank()))).string();
      (void)load(mine, {.ranks = &ranks});
    });
  });
  EXPECT_CONTAINS(message, "a folder that all ranks share; rank 1");
}

TEST_F(TokenCache, MakesTheMissingAndTheHalfPartsOnly) {
  Recipe recipe = recipe_of(kCases[2], folder_.path());
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
  Recipe recipe = recipe_of(kCases[1], folder_.path(), 20000);
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
  for (const auto& [name, bytes] : killed) EXPECT_TRUE(whole.contains(name)) << name << " is left, " << kills << " kills";
  EXPECT_TRUE(killed == whole) << kills << " kills";
}

TEST_F(TokenCache, AnInterruptKeepsWhatIsDone) {
  Recipe recipe = recipe_of(kCases[2], folder_.path());
  recipe.token_cache = (folder_ / "cache").string();
  std::atomic<bool> stop = false;
  int told = 0;
  const auto stop_at = [&](std::string_view text) {
    if (text.ends_with("% of the text is tokenised")) stop = ++told == 3;
  };
  const CorpusOptions options{.stop = &stop, .part_bytes = 700};
  const auto interrupted = [&] { (void)load_corpus(recipe, {}, false, stop_at, options); };
  EXPECT_CONTAINS(message_of(interrupted), "found an interrupt");
  const std::string messages = load(recipe, {.part_bytes = 700}).messages;
  const size_t reused = messages.find(" tokenised, ");
  ASSERT_NE(reused, std::string::npos);
  EXPECT_GE(std::stoi(messages.substr(reused + 12)), 3) << messages;
}

TEST_F(TokenCache, NoticesAnotherTextAndOtherSettings) {
  Recipe recipe = recipe_of(kCases[11], folder_.path());
  recipe.token_cache = (folder_ / "cache").string();
  (void)load(recipe);
  const auto expect_remade = [&](const std::string& why) {
    Loaded cached = load(recipe);
    EXPECT_CONTAINS(cached.messages, why);
    EXPECT_CONTAINS(cached.messages, " parts tokenised, 0 reused");
    Recipe plain = recipe;
    plain.token_cache.clear();
    Loaded memory = load(plain);
    expect_same(memory.corpus, cached.corpus, why);
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
  Recipe recipe = recipe_of(kCases[11], folder_.path());
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

TEST_F(TokenCache, SaysWhatIsWrongWithTexts) {
  Recipe recipe = recipe_of(kCases[1], folder_.path());
  recipe.token_cache = (folder_ / "cache").string();
  const auto message = [&] { return message_of([&] { (void)load(recipe); }); };
  write_text(recipe.train_target, "one line\n");
  EXPECT_CONTAINS(message(), "target.txt: as many lines as " + recipe.train_source + ", 400; found 1");
  write_text(recipe.train_target, "caf\xe9\n");
  EXPECT_CONTAINS(message(), "target.txt\", line 1: UTF-8; byte 4");
  write_text(recipe.train_target, "");
  EXPECT_CONTAINS(message(), "the file is empty");
  write_text(recipe.train_target, std::string((16 << 20) + 1, 'x'));
  EXPECT_CONTAINS(message(), "lines of at most 16777216 bytes");
  recipe.train_target = (folder_ / "none").string();
  EXPECT_CONTAINS(message(), "No such file");
  recipe = recipe_of(kCases[4], folder_.path());
  recipe.token_cache = (folder_ / "cache").string();
  write_text(recipe.pairs, "a\tb\nno tab\n");
  EXPECT_CONTAINS(message(), "train.txt, line 2: source <tab> target; found no tab");
  recipe.token_cache = recipe.pairs;
  EXPECT_CONTAINS(message(), "a folder that can be made");
  recipe.token_cache = "/proc/none";
  EXPECT_CONTAINS(message(), "/proc/none");
  recipe = recipe_of(kCases[2], folder_.path());
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
  Recipe recipe = recipe_of(kCases[5], folder_.path());
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

TEST_F(TokenCache, DrawsTheSameLinesForTheVocabularyAsMemory) {
  Recipe recipe = recipe_of(kCases[3], folder_.path());
  recipe.vocabulary_lines = 150;
  Loaded memory = load(recipe);
  EXPECT_CONTAINS(memory.messages, "source and target get a vocabulary from 150 of 800 lines, drawn by the seed");
  recipe.token_cache = (folder_ / "cache").string();
  Loaded cached = load(recipe);
  expect_same(memory.corpus, cached.corpus, "150 lines");
  recipe.vocabulary_lines = 151;
  EXPECT_NE(load(recipe).corpus.checksum, memory.corpus.checksum);
  recipe.seed = 4;  // draws other lines
  EXPECT_CONTAINS(load(recipe).messages, "holds tokens of other settings");
}

TEST(LineSample, KeepsTheSameLinesInWhateverOrderTheyCome) {
  const auto sample = [](const std::vector<int64_t>& order, int64_t limit, uint64_t seed) {
    LineSample lines(limit, seed);
    for (const int64_t i : order) lines.add(static_cast<int>(i % 2), i / 2, std::to_string(i));
    EXPECT_EQ(lines.added(), 1000);
    return lines.take();
  };
  std::vector<int64_t> order(1000);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  const std::vector<int64_t> backwards(order.rbegin(), order.rend());
  std::set<std::string> seen;
  for (const int64_t limit : {1, 10, 500, 999, 1000, 2000}) {
    const auto kept = sample(order, limit, 1);
    EXPECT_EQ(static_cast<int64_t>(kept.size()), std::min<int64_t>(limit, 1000));
    EXPECT_EQ(kept, sample(backwards, limit, 1));
    if (limit < 1000) {
      EXPECT_NE(kept, sample(order, limit, 2));
    }
    EXPECT_EQ(std::set(kept.begin(), kept.end()).size(), kept.size());
  }
  for (uint64_t seed = 0; seed < 60; ++seed) {
    for (const std::string& line : sample(order, 100, seed)) seen.insert(line);
  }
  EXPECT_GT(seen.size(), 980u);               // 1,000 lines, each left out 60 times with a probability of 0.0018
  EXPECT_EQ(sample(order, 2000, 1)[1], "2");  // side after side
}

}  // namespace
}  // namespace heed::train
