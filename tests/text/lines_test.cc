// Lines of text files, UTF-8, padding.
#include <gtest/gtest.h>

#include "base/scratch.h"
#include "heed/text.h"
#include "text/line_reader.h"

namespace heed::text {
namespace {

using test::expect_error;
using test::Scratch;

TEST(Utf8, StopsAtTheFirstInvalidByte) {
  const struct {
    std::string text;
    size_t valid;
  } cases[] = {
      {"", 0},
      {"abc", 3},
      {"aäß中😀", 12},
      {std::string("a\0b", 3), 3},
      {"a\x80", 1},  // a continuation byte alone
      {"a\xc3", 1},  // cut off
      {"a\xe4\xb8", 1},
      {"a\xf0\x9f\x98", 1},
      {"\xc0\xaf", 0},  // overlong
      {"\xc1\xbf", 0},
      {"\xe0\x9f\xbf", 0},
      {"\xf0\x8f\xbf\xbf", 0},
      {"\xed\x9f\xbf\xed\xa0\x80", 3},  // a surrogate
      {"\xee\x80\x80", 3},
      {"\xf4\x8f\xbf\xbf", 4},  // U+10FFFF
      {"\xf4\x90\x80\x80", 0},  // beyond
      {"\xf5\x80\x80\x80", 0},
      {"\xff", 0},
      {"\xc3\x28", 0},
  };
  for (const auto& c : cases) {
    for (const size_t before : {0, 1, 5, 7, 8, 9, 16, 21}) {  // ASCII is read eight bytes at a time
      const std::string text = std::string(before, 'a') + std::string(c.text);
      EXPECT_EQ(valid_utf8_prefix(text), before + c.valid) << testing::PrintToString(text);
      const size_t all = c.valid == text.size() - before ? text.size() + 9 : before + c.valid;
      EXPECT_EQ(valid_utf8_prefix(text + "and after"), all) << testing::PrintToString(text);
    }
  }
}

TEST(ReadLines, TakesEitherLineEnd) {
  const Scratch scratch;
  const std::vector<std::string> expected = {"one", "", "zwei ä", "三"};
  EXPECT_EQ(read_lines(scratch.file("unix", "one\n\nzwei ä\n三\n")), expected);
  EXPECT_EQ(read_lines(scratch.file("dos", "one\r\n\r\nzwei ä\r\n三\r\n")), expected);
  EXPECT_EQ(read_lines(scratch.file("open", "one\n\nzwei ä\n三")), expected);
  EXPECT_EQ(read_lines(scratch.file("bom", "\xef\xbb\xbfone\n\nzwei ä\n三")), expected);
  EXPECT_EQ(read_lines(scratch.file("blank", "\n")), std::vector<std::string>{""});
  EXPECT_EQ(read_lines(scratch.file("inside", "a\rb\n")), std::vector<std::string>{"a\rb"});
}

TEST(ReadLines, SaysWhichLineIsNotUtf8) {
  const Scratch scratch;
  expect_error(
      [&] {
        (void)read_lines(scratch.file("f",
                                      "good\nalso good\nb\xff"
                                      "ad\n"));
      },
      "f\", line 3: valid UTF-8; found byte ");
  expect_error([&] { (void)read_lines(scratch.file("f", "caf\xe9")); }, "line 1: valid UTF-8; found byte 0xe9 at position 4");
  expect_error(
      [&] {
        (void)read_lines(scratch.file("f",
                                      "\xff\xfe"
                                      "a\n"));
      },
      "line 1: valid UTF-8; found byte ");
}

TEST(ReadLines, RefusesWhatIsNoText) {
  const Scratch scratch;
  expect_error([&] { (void)read_lines(scratch.file("f", "")); }, "the file is empty");
  expect_error([&] { (void)read_lines(scratch / "none"); }, "No such file or directory");
  expect_error([&] { (void)read_lines(scratch.path()); }, "found a folder");
}

// printf 'one\ntwo\n' | gzip -n
TEST(ReadLines, ReadsGzip) {
  const Scratch scratch;
  const std::string packed = test::from_hex("1f8b0800000000000003cbcf4be52a29cfe70200e60bba1208000000");
  EXPECT_EQ(read_lines(scratch.file("any name", packed)), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(read_lines(scratch.file("f", packed + packed)), (std::vector<std::string>{"one", "two", "one", "two"}));
  expect_error([&] { (void)read_lines(scratch.file("f", packed.substr(0, 20))); }, "a whole gzip file");
}

// The reader's buffer grows by blocks of 2^20 bytes: the end of the line lies before, across or after the end of a
// block.
TEST(LineReader, TakesLinesOfAtMostTheLongestLength) {
  const Scratch scratch;
  constexpr int64_t kBlock = int64_t{1} << 20;
  for (const std::string before : {"", "first\n"}) {
    for (int64_t longest = kBlock - 9; longest <= kBlock + 2; ++longest) {
      for (const std::string end : {"\n", "\r\n", "", "\r", "\nlast\n", "\r\nlast"}) {
        const std::string line(static_cast<size_t>(longest), 'x');
        const auto read = [&](const std::string& text) {
          LineReader reader(scratch.file("f", before + text + end), longest);
          std::vector<std::string> lines;
          for (std::string_view each; reader.next(each);) lines.emplace_back(each);
          return lines;
        };
        std::vector<std::string> expected;
        if (!before.empty()) expected.emplace_back("first");
        expected.push_back(line);
        if (end.ends_with('t') || end.ends_with("t\n")) expected.emplace_back("last");
        ASSERT_TRUE(read(line) == expected) << before << longest << ::testing::PrintToString(end);
        for (const char* const one_more : {"x", "\r"}) {  // a "\r" inside of a line is a byte of it
          if (one_more[0] == '\r' && !end.ends_with("\r\n") && end != "\r") continue;
          expect_error([&] { (void)read(line + one_more); }, "lines of at most " + std::to_string(longest) + " bytes");
        }
      }
    }
  }
}

TEST(LineReader, GoesOnWhereItWas) {
  const Scratch scratch;
  std::string text = "\xef\xbb\xbf";
  for (int64_t i = 0; i < 300000; ++i) text += std::to_string(i) + (i % 3 == 0 ? "\r\n" : "\n");
  const auto file = scratch.file("f", text);
  struct Place {
    int64_t position, lines;
  };
  std::vector<Place> places;
  std::vector<std::string> lines;
  LineReader reader(file);
  for (std::string_view line; reader.next(line);) {
    lines.emplace_back(line);
    places.push_back({reader.position(), reader.lines()});
  }
  ASSERT_EQ(lines.size(), 300000u);
  EXPECT_EQ(places.back().position, static_cast<int64_t>(text.size()));
  LineReader again(file);
  std::string_view line;
  for (const size_t at : {size_t{0}, size_t{3}, size_t{170000}, size_t{170001}, size_t{299998}}) {
    again.skip_to(places[at].position, places[at].lines);  // within the buffer, and beyond it
    EXPECT_EQ(again.position(), places[at].position);
    ASSERT_TRUE(again.next(line));
    EXPECT_EQ(line, lines[at + 1]);
    EXPECT_EQ(again.lines(), static_cast<int64_t>(at) + 2);
    again.skip_to(again.position(), again.lines());  // stays
  }
  EXPECT_FALSE(again.next(line));
}

TEST(LineReader, DoesNotGoBack) {
  const Scratch scratch;
  LineReader reader(scratch.file("f", "one\ntwo\nthree\n"), 100, "g");
  std::string_view line;
  ASSERT_TRUE(reader.next(line) && reader.next(line));
  expect_error([&] { reader.skip_to(3, 0); },
               "[g] \"" + (scratch / "f").string() + "\": a byte from 8 on to go on at; found 3");
  ASSERT_TRUE(reader.next(line));  // and stays where it was
  EXPECT_EQ(line, "three");
  expect_error([&] { reader.skip_to(1000, 0); }, "byte 1000 of the text; it is shorter");
}

TEST(ReadLines, ReadsTheSentencePairsOfTheDemo) {
  const auto file = std::filesystem::path(HEED_SOURCE_DIR) / "demo/tatoeba-cmn-eng.tsv.gz";
  const std::vector<std::string> lines = read_lines(file);
  ASSERT_EQ(lines.size(), 28138u);
  EXPECT_EQ(lines[0].substr(0, lines[0].find("\tCC-BY")), "Hi.\t嗨。");
}

TEST(Pad, FillsOnTheRight) {
  const std::vector<Ids> sequences = {{5, 6, 7}, {}, {8}};
  const Padded padded = pad(sequences, 9);
  ASSERT_EQ(padded.ids.shape(), Shape({3, 3}));
  ASSERT_EQ(padded.lengths.shape(), Shape({3}));
  const int32_t expected[] = {5, 6, 7, 9, 9, 9, 8, 9, 9};
  for (int64_t i = 0; i < 9; ++i) EXPECT_EQ(padded.ids.data<int32_t>()[i], expected[i]) << i;
  EXPECT_EQ(padded.lengths.at({0}), 3);
  EXPECT_EQ(padded.lengths.at({1}), 0);
  EXPECT_EQ(padded.lengths.at({2}), 1);
  EXPECT_EQ(pad({}, 0).ids.shape(), Shape({0, 0}));
}

}  // namespace
}  // namespace heed::text
