// Lines that ranks share, with threads as ranks: everything that is written, warned of and refused is that of one rank.
#include "pipelines/shared_lines.h"

#include <gtest/gtest.h>

#include <mutex>
#include <random>

#include "base/message.h"
#include "pipelines/small_models.h"

namespace heed::pipelines {
namespace {

using heed::test::Folder;
using heed::test::make_model;

// Lines of 0 to 12 words, with some that the model does not know.
std::vector<std::string> some_lines(size_t count) {
  const char* const words[] = {"where", "is", "the", "station", "when", "does", "train", "leave", "Ω"};
  std::mt19937 draw(7);
  std::vector<std::string> lines;
  for (size_t i = 0; i < count; ++i) {
    std::string line;
    const bool unknown = i % 31 == 5;
    for (auto n = draw() % 13; n > 0; --n)
      line += (line.empty() ? "" : " ") + std::string(words[unknown ? 8 : draw() % 8]);
    lines.push_back(line);
  }
  return lines;
}

// What rank 0 saw of a translation of the lines.
struct Seen {
  std::vector<std::string> outputs, warnings;
  std::string error;
  bool complete = false;
  std::vector<size_t> batches;  // of all ranks, in any order
  friend bool operator==(const Seen& a, const Seen& b) {
    return a.outputs == b.outputs && a.warnings == b.warnings && a.error == b.error && a.complete == b.complete;
  }
};

Seen translate_with(int ranks, const Translator& translator, const std::vector<std::string>& lines,
                    size_t at_once = 4096, int64_t first_line = 0) {
  Seen seen;
  std::mutex mutex;
  size_t taken = 0;
  SharedLines shared;
  shared.read = [&](size_t most, bool) {
    const size_t begin = taken;
    taken = std::min({lines.size(), taken + most, taken + at_once});
    return std::vector<std::string>(lines.begin() + static_cast<std::ptrdiff_t>(begin),
                                    lines.begin() + static_cast<std::ptrdiff_t>(taken));
  };
  shared.ended = [&] { return taken == lines.size(); };
  shared.write = [&](int64_t first, const std::vector<std::string>& outputs) {
    EXPECT_EQ(first, first_line + static_cast<int64_t>(seen.outputs.size()));
    seen.outputs.insert(seen.outputs.end(), outputs.begin(), outputs.end());
  };
  shared.on_warning = [&](const TextWarning& warning) {
    seen.warnings.push_back(std::to_string(warning.text) + ": " + to_string(warning));
  };
  shared.on_loss = [](const std::string& what) { ADD_FAILURE() << what; };
  shared.progress = [](int64_t done, int64_t read) { EXPECT_LE(done, read); };
  shared.stop = [] { return false; };
  shared.name = [](int64_t line) { return "line " + std::to_string(line + 1); };
  shared.first_line = first_line;
  const TranslatorOptions options{.search = {.beam = 2, .max_length = 12}};
  shared.largest = 64;
  shared.work = [&](const LineBatch& batch, const std::function<void(std::string)>& hand_over) {
    {
      const std::lock_guard lock(mutex);
      seen.batches.push_back(batch.lines.size());
    }
    TranslatorOptions mine = options;
    mine.text = batch.text;
    mine.search.stop = batch.stop;
    mine.progress = batch.on_done;
    translator.translate(batch.lines, mine, [&](int64_t, const std::vector<Translation>& found) {
      hand_over(std::to_string(found[0].score) + " " + found[0].text);
    });
  };
  seen.error = heed::testing::message_of([&] {
    distributed::run_in_process(ranks, [&](distributed::Communicator& each) {
      const bool complete = share_lines(each, shared);
      if (each.rank() == 0) seen.complete = complete;
    });
  });
  return seen;
}

class SharedLinesTest : public ::testing::Test {
 protected:
  const Folder folder_;
  const Translator translator_ = Translator::load(make_model(folder_.path(), models::Architecture::encoder_decoder));
};

TEST_F(SharedLinesTest, EveryNumberOfRanksWritesTheSame) {
  for (const size_t count : {0, 1, 3, 40, 500}) {
    const std::vector<std::string> lines = some_lines(count);
    const Seen one = translate_with(1, translator_, lines);
    ASSERT_EQ(one.outputs.size(), count);
    EXPECT_TRUE(one.complete);
    for (size_t i = 0; i < std::min<size_t>(count, 40); ++i) {  // each is what the line alone becomes
      const Translation alone = translator_.translate(lines[i], {.search = {.beam = 2, .max_length = 12}}).front();
      EXPECT_EQ(one.outputs[i], std::to_string(alone.score) + " " + alone.text);
    }
    EXPECT_TRUE(count < 500 || one.warnings.size() > 10) << one.warnings.size();
    for (const int ranks : {2, 3, 4, 6}) EXPECT_TRUE(translate_with(ranks, translator_, lines) == one) << ranks;
    EXPECT_TRUE(translate_with(3, translator_, lines, 1) == one) << "lines that come one by one";
  }
}

TEST_F(SharedLinesTest, ALineThatIsRefusedEndsAllBehindTheLinesBeforeIt) {
  std::vector<std::string> lines = some_lines(300);
  lines[170] = "not \xff UTF-8";
  lines[200] = "nor \xfe this";
  const Seen one = translate_with(1, translator_, lines);
  EXPECT_EQ(one.outputs.size(), 170u);
  EXPECT_CONTAINS(one.error, "line 171: valid UTF-8; found byte 0xff");
  for (const int ranks : {2, 3, 4}) EXPECT_TRUE(translate_with(ranks, translator_, lines) == one) << ranks;
  const Seen later = translate_with(2, translator_, lines, 4096, 1000);
  EXPECT_CONTAINS(later.error, "line 1171: valid UTF-8");
  EXPECT_TRUE(later.warnings.front().starts_with("1")) << later.warnings.front();
}

TEST_F(SharedLinesTest, BatchesGrowAndShrink) {
  const std::vector<std::string> lines = some_lines(500);
  EXPECT_EQ(translate_with(1, translator_, lines).batches.front(), 16u) << "the first result comes early";
  EXPECT_EQ(translate_with(1, translator_, lines).batches, (std::vector<size_t>{16, 64, 64, 64, 64, 64, 64, 64, 36}));
  const Seen two = translate_with(2, translator_, lines);
  EXPECT_LE(*std::min_element(two.batches.end() - 3, two.batches.end()), 8u) << "the last ones are small";
  EXPECT_LE(*std::max_element(two.batches.begin(), two.batches.end()), 64u);
  // Twelve lines are too few for one rank to take them all.
  EXPECT_GE(translate_with(4, translator_, some_lines(12)).batches.size(), 2u);
}

}  // namespace
}  // namespace heed::pipelines
