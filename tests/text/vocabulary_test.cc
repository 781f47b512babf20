// Tokenizers that are lists of tokens, and how tokenizers are found in a model folder.
#include <gtest/gtest.h>

#include "base/data.h"
#include "base/scratch.h"
#include "heed/text.h"

namespace heed::text {
namespace {

using test::contents_of;
using test::expect_error;
using test::Scratch;
using Strings = std::vector<std::string>;

TEST(Characters, AreEncodedAndDecodedWhole) {
  const auto tokenizer = train_characters(Strings{"héllo\n", "wörld 中\\"});
  EXPECT_EQ(tokenizer->kind(), "characters");
  // The special ones, and \n, space, \, d, h, l, o, r, w, é, ö, 中: sorted by code point.
  EXPECT_EQ(tokenizer->vocabulary(), 4 + 12);
  EXPECT_EQ(tokenizer->piece(4), "\n");
  EXPECT_EQ(tokenizer->piece(5), " ");
  EXPECT_EQ(tokenizer->piece(0), "<pad>");
  EXPECT_EQ(tokenizer->piece(1), "<s>");
  EXPECT_EQ(tokenizer->piece(2), "</s>");
  EXPECT_EQ(tokenizer->piece(3), "<unk>");
  for (const std::string text : {"", "wörld 中\\", "héllo\n", "  ll  "}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  EXPECT_EQ(tokenizer->encode("hxl"), (Ids{8, 3, 9}));
  EXPECT_EQ(tokenizer->decode(Ids{1, 8, 3, 9, 2, 0, 0}), "hl");  // special ids are left out
  expect_error([&] { (void)tokenizer->decode(Ids{16}); }, "ids from 0 to 15; found 16");
  expect_error([&] { (void)tokenizer->decode(Ids{-1}); }, "found -1");
  expect_error([&] { (void)tokenizer->encode("a\xff"); }, "found byte 0xff at position 2");
  expect_error([&] { (void)tokenizer->piece(99); }, "found 99");
  expect_error([] { (void)train_characters(Strings{"", ""}); }, "found none");
}

TEST(Characters, OfTinyShakespeareAre65) {
  const Strings text = {contents_of(test::test_data("text/tinyshakespeare.txt"))};
  const auto tokenizer = train_characters(text);
  EXPECT_EQ(tokenizer->vocabulary(), 4 + 65);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text[0])), text[0]);
}

TEST(Pieces, AreCutAtSpacesAndJoined) {
  const Strings lines = {"ein Hau@@ s am See", "ein See", "ein  Boot "};
  const auto tokenizer = train_pieces(lines);
  EXPECT_EQ(tokenizer->kind(), "pieces");
  EXPECT_EQ(tokenizer->piece(4), "ein");  // the most frequent first, then by text
  EXPECT_EQ(tokenizer->piece(5), "See");
  EXPECT_EQ(tokenizer->piece(6), "Boot");
  EXPECT_EQ(tokenizer->piece(7), "Hau@@");
  EXPECT_EQ(tokenizer->vocabulary(), 10);
  EXPECT_EQ(tokenizer->encode("ein Hau@@ s"), (Ids{4, 7, 9}));
  EXPECT_EQ(tokenizer->decode(Ids{1, 4, 7, 9, 8, 5, 2}), "ein Haus am See");
  EXPECT_EQ(tokenizer->decode(Ids{4, 7}), "ein Hau");  // an end in the middle of a word
  EXPECT_EQ(tokenizer->encode("ein Schiff <s>"), (Ids{4, 3, 3}));
  EXPECT_EQ(train_pieces(lines, 2)->vocabulary(), 6);
  expect_error([&] { (void)train_pieces(lines, 100); }, "at least 100 times");
}

TEST(Pieces, ThatLookSpecialAreText) {
  const auto tokenizer = train_pieces(Strings{"a <s> <pad> a"});
  const std::vector<int32_t> ids = tokenizer->encode("<s> <pad>");
  for (const int32_t id : ids) EXPECT_GT(id, 3);
  EXPECT_EQ(tokenizer->decode(ids), "<s> <pad>");
}

// Taking "@@ " out of the BPE text gives the tokenised text back, line for line.
TEST(Pieces, UndoTheBpeOfMulti30k) {
  const auto bpe = test::shared_data("multi30k/bpe_ende/test.2016.de.gz");
  const auto tok = test::shared_data("multi30k/tok/test_2016_flickr.lc.norm.tok.de.gz");
  HEED_NEED_SHARED(bpe);
  HEED_NEED_SHARED(tok);
  const Strings cut = read_lines(bpe), whole = read_lines(tok);
  const auto tokenizer = train_pieces(cut);
  ASSERT_EQ(cut.size(), whole.size());
  for (size_t i = 0; i < cut.size(); ++i) EXPECT_EQ(tokenizer->decode(tokenizer->encode(cut[i])), whole[i]);
}

TEST(Vocabulary, SaysItsOwnSpecialIds) {
  const SpecialIds special{.padding = -1, .begin = 2, .end = 2, .unknown = 0};
  const auto tokenizer = vocabulary_tokenizer({"<unk>", "b", "<eos>", "a"}, special, true);
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{3, 1, 0}));
  EXPECT_EQ(tokenizer->decode(Ids{2, 3, 1, 2}), "ab");
  EXPECT_EQ(tokenizer->special().padding, -1);
  EXPECT_EQ(tokenizer->special().end, 2);
  const auto closed = vocabulary_tokenizer({"a"}, {.padding = -1, .begin = -1, .end = -1, .unknown = -1}, true);
  expect_error([&] { (void)closed->encode("ab"); }, "no unknown one; found \"b\"");
  expect_error([] { (void)vocabulary_tokenizer({"p", "s", "e", "u", "a", "a"}, {}, false); }, "comes twice");
  expect_error([] { (void)vocabulary_tokenizer({"a", "b"}, {}, false); }, "special ids from -1 (none) to 1; found 2");
  expect_error([] { (void)vocabulary_tokenizer({}, {}, false); }, "found 0");
  expect_error([] { (void)vocabulary_tokenizer({"p", "s", "e", "u", "ab"}, {}, true); }, "token 4 is not one");
  expect_error([] { (void)vocabulary_tokenizer({"p", "s", "e", "u", "\xff"}, {}, false); }, "token 4 is not");
}

TEST(Tokens, OfAVocabularySayWhereTheyStand) {
  const auto tokenizer = train_pieces(Strings{"ein See ein"});
  const Tokens tokens = tokenizer->tokens(" ein  Schiff See");
  EXPECT_EQ(tokens.ids, (Ids{1, 4, 3, 5, 2}));
  EXPECT_EQ(tokens.segments, (Ids{0, 0, 0, 0, 0}));
  EXPECT_EQ(tokens.special, (std::vector<uint8_t>{1, 0, 0, 0, 1}));
  EXPECT_EQ(tokens.spans, (std::vector<Span>{{0, 0}, {1, 4}, {6, 12}, {13, 16}, {0, 0}}));
  EXPECT_EQ(tokenizer->tokens("ein See", {.add_special = false}).ids, (Ids{4, 5}));
  const Tokens cut = tokenizer->tokens("ein See ein", {.limit = 4});
  EXPECT_EQ(cut.ids, (Ids{1, 4, 5, 2}));
  EXPECT_EQ(cut.left_out, 1);
  EXPECT_EQ(tokenizer->id_of("See"), 5);
  EXPECT_EQ(tokenizer->id_of("</s>"), 2);
  EXPECT_EQ(tokenizer->id_of("Schiff"), std::nullopt);
  expect_error([&] { (void)tokenizer->tokens("ein", {.pair = "See"}); }, "found a pair");
  expect_error([&] { (void)tokenizer->tokens("ein", {.limit = 1}); }, "at least the 2 added tokens; found 1");
  expect_error([&] { (void)tokenizer->tokens("ein", {.limit = -1}); }, "found -1");
  expect_error([&] { (void)tokenizer->tokens("ein", {.parse_special = true}); }, "cannot do");
}

TEST(Folder, KeepsATokenizerASide) {
  const Scratch scratch;
  train_characters(Strings{"a\nb\\\r中"})->save(scratch.path(), Side::source);
  train_pieces(Strings{"x y x"})->save(scratch.path(), Side::target);
  const auto source = Tokenizer::load(scratch.path(), Side::source);
  const auto target = Tokenizer::load(scratch.path(), Side::target);
  EXPECT_EQ(source->kind(), "characters");
  EXPECT_EQ(source->vocabulary(), 10);
  EXPECT_EQ(source->decode(source->encode("中\n\\\rba")), "中\n\\\rba");
  EXPECT_EQ(target->kind(), "pieces");
  EXPECT_EQ(target->encode("x y"), (Ids{4, 5}));
  EXPECT_EQ(scratch.count(), 2);
  const SpecialIds special{.padding = -1, .begin = 2, .end = 3, .unknown = 0};
  vocabulary_tokenizer({"<unk>", "b", "<bos>", "<eos>"}, special, true)->save(scratch.path(), Side::target);
  EXPECT_EQ(Tokenizer::load(scratch.path(), Side::target)->special().end, 3);
}

TEST(Folder, SaysWhatIsWrong) {
  const Scratch scratch;
  expect_error([&] { (void)Tokenizer::load(scratch.path(), Side::source); }, "source.model or source.vocab");
  expect_error([&] { (void)Tokenizer::load(scratch / "none", Side::target); }, "found neither");
  const std::string header = "heed-vocabulary 1 pieces padding=0 begin=1 end=2 unknown=3\n";
  const struct {
    std::string file;
    const char* message;
  } cases[] = {
      {"", "lines that end"},
      {"a\nb\n", "line 1: \"heed-vocabulary 1 "},
      {"heed-vocabulary 2 pieces\n", "line 1"},
      {"heed-vocabulary 1 words padding=0\n", "the kind characters or pieces"},
      {"heed-vocabulary 1 pieces padding=0 begin=1 end=2\n", "\" unknown=<number>\""},
      {"heed-vocabulary 1 pieces padding=0 begin=1 end=99999999999 unknown=3\n", "\" end=<number>\""},
      {"heed-vocabulary 1 pieces padding=0 begin=1 end=2 unknown=3 x=4\n", "nothing after"},
      {header, "1 to 2^31 - 1 tokens"},
      {header + "p\ns\ne\nu\na\na\n", "comes twice"},
      {header + "p\ns\ne\nu\na\\x\n", "line 6: \\n, \\r or \\\\"},
      {header + "p\ns\ne\nu\na", "the last does not"},
      {header + "p\ns\n", "special ids"},
      {header + "p\ns\ne\nu\n\xff\n", "UTF-8"},
  };
  for (const auto& c : cases) {
    (void)scratch.file("source.vocab", c.file);
    expect_error([&] { (void)Tokenizer::load(scratch.path(), Side::source); }, c.message);
    expect_error([&] { (void)Tokenizer::load(scratch.path(), Side::source); }, "source.vocab\"");
  }
  (void)scratch.file("source.model", "x");
  expect_error([&] { (void)Tokenizer::load(scratch.path(), Side::source); }, "found both");
}

}  // namespace
}  // namespace heed::text
