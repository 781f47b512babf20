// Token files: what is written is read back, and nothing else is believed.
#include "train/token_file.h"

#include <sys/stat.h>

#include <functional>

#include "toy.h"
#include "train/mapped_data.h"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

constexpr TokenFileKind kPairs{
    .fingerprint = 0x0123456789abcdef, .part = 3, .sides = 2, .id_bytes = 2, .vocabulary = 300};
constexpr size_t kHeader = 64, kFooter = 128;

const std::vector<std::vector<Ids>> kSides = {{{4, 5, 6}, {7}, {250, 251}}, {{9, 10}, {11, 12, 13, 14}, {15}}};

fs::path write_pairs(const fs::path& file, const TokenFileKind& kind = kPairs) {
  TokenFileWriter writer(file, kind);
  for (size_t i = 0; i < 3; ++i) {
    writer.add_line();
    const Ids sides[2] = {kSides[0][i], kSides[1][i]};
    writer.add_sentence(sides);
  }
  writer.add_line();
  writer.leave_out();
  writer.commit();
  return file;
}

// Opens a file and reads all of it.
void read_pairs_of(const fs::path& file, const TokenFileKind& kind = kPairs) {
  const TokenFile tokens(file, kind);
  Ids ids;
  for (int64_t i = 0; i < tokens.counts().sentences; ++i) {
    for (int side = 0; side < kind.sides; ++side) tokens.append(i, side, ids);
  }
}

// A file that was changed, and whose checksums were made to fit.
class Crafted {
 public:
  explicit Crafted(const fs::path& file) : bytes_(read_text(file)) {}
  template <class T>
  Crafted& set(size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
    return *this;
  }
  template <class T>
  Crafted& set_in_footer(size_t at, T value) {
    return set(bytes_.size() - kFooter + at, value);
  }
  std::string& bytes() { return bytes_; }
  // The CRC-32 of `size` bytes at `at` goes to a place in the footer.
  Crafted& sum(size_t at, size_t size, size_t to) {
    return set_in_footer(to, files::crc32(std::string_view(bytes_).substr(at, size)));
  }
  void write(const fs::path& file) {
    const size_t footer = bytes_.size() - kFooter;
    const std::string_view all = bytes_;
    set_in_footer(kFooter - 4, files::crc32(all.substr(footer, kFooter - 4), files::crc32(all.substr(0, kHeader))));
    write_text(file, bytes_);
  }

 private:
  std::string bytes_;
};

TEST(TokenFile, GivesBackWhatWasWritten) {
  const TemporaryFolder folder;
  for (const int id_bytes : {2, 4}) {
    TokenFileKind kind = kPairs;
    kind.id_bytes = id_bytes;
    const TokenFile file(write_pairs(folder / "f.tokens", kind), kind);
    EXPECT_EQ(file.counts().lines, 4);
    EXPECT_EQ(file.counts().left_out, 1);
    EXPECT_EQ(file.counts().sentences, 3);
    EXPECT_EQ(file.counts().tokens, 13);
    EXPECT_EQ(file.counts().longest, 4);
    EXPECT_EQ(file.counts().longer_sides, 9);
    for (int side = 0; side < 2; ++side) {
      const auto& expected = kSides[static_cast<size_t>(side)];
      EXPECT_EQ(file.counts().side[side].checksum, checksum_of(expected));
      for (size_t i = 0; i < 3; ++i) {
        Ids ids = {1};
        file.append(static_cast<int64_t>(i), side, ids);
        EXPECT_EQ(Ids(ids.begin() + 1, ids.end()), expected[i]);
      }
    }
    std::vector<int64_t> lengths(2);
    file.lengths(1, lengths);
    EXPECT_EQ(lengths, (std::vector<int64_t>{4, 2}));
  }
}

TEST(TokenFile, PartsAreReadAsOneTextWhereverTheyAreCut) {
  const TemporaryFolder folder;
  Ids stream;
  for (int32_t i = 0; i < 1'500'000; ++i)
    stream.push_back(static_cast<int32_t>(philox(1, 2, static_cast<uint64_t>(i))[0] % 60000));
  TokenFileKind kind{.fingerprint = 1, .sides = 0, .id_bytes = 2, .vocabulary = 60000};
  std::vector<fs::path> files;
  const int64_t cuts[] = {0, 1'100'000, 1'100'000, 1'100'007, 1'500'000};  // one part is empty
  for (size_t p = 0; p < 4; ++p) {
    kind.part = static_cast<int64_t>(p);
    files.push_back(folder / ("p" + std::to_string(p)));
    TokenFileWriter writer(files.back(), kind);
    writer.add_to_stream(
        std::span(stream).subspan(static_cast<size_t>(cuts[p]), static_cast<size_t>(cuts[p + 1] - cuts[p])));
    writer.commit();
  }
  const auto parts = std::make_shared<TokenParts>(files, kind);
  for (const auto& [first, last] :
       {std::pair<int64_t, int64_t>{0, 1'500'000}, {5, 1'100'003}, {1'100'000, 1'100'007}}) {
    const auto mapped = mapped_stream(parts, first, last);
    const Ids expected(stream.begin() + first, stream.begin() + last);
    EXPECT_EQ(mapped->size(), last - first);
    EXPECT_EQ(mapped->checksum(), checksum_of_stream(expected));
    Ids all(expected.size());
    mapped->read(0, all);
    EXPECT_EQ(all, expected);
  }
}

TEST(TokenFile, RefusesEveryPrefixAndAFlippedBitInEveryByte) {
  const TemporaryFolder folder;
  const std::string whole = read_text(write_pairs(folder / "f.tokens"));
  for (size_t size = 0; size < whole.size(); ++size) {
    write_text(folder / "f.tokens", whole.substr(0, size));
    EXPECT_CONTAINS(message_of([&] { read_pairs_of(folder / "f.tokens"); }), "f.tokens") << size;
  }
  const size_t filled = kHeader + 26;  // 13 ids of 2 bytes; behind them are zeros that nobody reads
  for (size_t byte = 0; byte < whole.size(); ++byte) {
    const bool unread = (byte >= filled && byte < kHeader + 32) ||  // ids, index and sums are filled up to 8 bytes
                        (byte >= kHeader + 32 + 28 && byte < kHeader + 64) ||
                        (byte >= kHeader + 68 && byte < kHeader + 72);
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << (byte % 8)));
    write_text(folder / "f.tokens", damaged);
    const std::string message = message_of([&] { read_pairs_of(folder / "f.tokens"); });
    if (!unread) {
      EXPECT_CONTAINS(message, "f.tokens") << "byte " << byte;
    }
  }
}

TEST(TokenFile, RefusesWhatDoesNotFit) {
  const TemporaryFolder folder;
  const fs::path good = write_pairs(folder / "good.tokens"), bad = folder / "bad.tokens";
  constexpr size_t kIndex = kHeader + 32, kSums = kIndex + 32;  // 13 ids of 2 bytes; 7 entries
  enum Footer : size_t { lines = 0, left_out = 8, sentences = 16, tokens = 24, longest = 32, longer = 40, side0 = 48 };
  constexpr size_t kIndexSum = 72, kSumsSum = 76;
  const auto index = [&](Crafted& file, size_t entry, uint32_t value) {
    file.set(kIndex + 4 * entry, value).sum(kIndex, 28, kIndexSum);
  };
  const struct {
    const char* what;
    std::function<void(Crafted&)> change;
    const char* expected;
  } cases[] = {
      {"magic", [](Crafted& f) { f.set(0, 'H'); }, "another kind of file"},
      {"version", [](Crafted& f) { f.set(8, 2); }, "version 1 of token files; found 2"},
      {"byte order", [](Crafted& f) { f.set(12, 0x04030201); }, "another byte order"},
      {"bytes an id", [](Crafted& f) { f.set(16, 3); }, "found others"},
      {"bytes an id", [](Crafted& f) { f.set(16, 4); }, "found others"},
      {"sides", [](Crafted& f) { f.set(20, 1); }, "found others"},
      {"sides", [](Crafted& f) { f.set(20, 0xffffffffu); }, "found others"},
      {"part", [](Crafted& f) { f.set(24, int64_t{4}); }, "found others"},
      {"fingerprint", [](Crafted& f) { f.set(32, uint64_t{1}); }, "found others"},
      {"unused bytes of the header", [](Crafted& f) { f.set(60, 1); }, "found others"},
      {"negative count", [](Crafted& f) { f.set_in_footer(lines, int64_t{-1}); }, "a count below 2^63"},
      {"left out", [](Crafted& f) { f.set_in_footer(left_out, int64_t{5}); }, "counts that fit together"},
      {"fewer sentences", [](Crafted& f) { f.set_in_footer(sentences, int64_t{2}); }, "bytes for its counts"},
      {"more sentences", [](Crafted& f) { f.set_in_footer(sentences, int64_t{100}); }, "bytes for its counts"},
      {"2^62 sentences", [](Crafted& f) { f.set_in_footer(sentences, int64_t{1} << 62); },
       "as many ids as fit the file"},
      {"fewer tokens", [](Crafted& f) { f.set_in_footer(tokens, int64_t{5}); }, "bytes for its counts"},
      {"2^63 - 1 tokens", [](Crafted& f) { f.set_in_footer(tokens, INT64_MAX); }, "as many ids as fit the file"},
      {"tokens of a side", [](Crafted& f) { f.set_in_footer(side0, int64_t{5}); }, "counts that fit together"},
      {"longest", [](Crafted& f) { f.set_in_footer(longest, int64_t{5}); }, "an index that fits the counts"},
      {"longer sides", [](Crafted& f) { f.set_in_footer(longer, int64_t{5}); }, "an index that fits the counts"},
      {"first entry", [&](Crafted& f) { index(f, 0, 1); }, "an index of all ids"},
      {"last entry", [&](Crafted& f) { index(f, 6, 12); }, "an index of all ids"},
      {"descending", [&](Crafted& f) { index(f, 2, 2); }, "entry 1 of the index"},
      {"an empty sentence", [&](Crafted& f) { index(f, 1, 0); }, "entry 0 of the index"},
      {"beyond the ids", [&](Crafted& f) { index(f, 3, 0x80000000u); }, "entry 3 of the index"},
      {"index", [](Crafted& f) { f.set(kIndex + 4, 2); }, "an index with the CRC-32"},
      {"sums", [](Crafted& f) { f.set(kSums, 2); }, "checksums of the ids"},
      {"ids", [](Crafted& f) { f.set(kHeader, uint16_t{8}); }, "from byte 64 on are damaged. Remove the file"},
      {"id outside the vocabulary",
       [](Crafted& f) {
         f.set(kHeader, uint16_t{300});
         f.set(kSums, files::crc32(std::string_view(f.bytes()).substr(kHeader, 26))).sum(kSums, 4, kSumsSum);
       },
       "ids below 300; found 300"},
      {"a longer file", [](Crafted& f) { f.bytes().insert(kHeader, 8, '\0'); }, "bytes for its counts"},
      {"a second footer", [](Crafted& f) { f.bytes() += f.bytes().substr(f.bytes().size() - kFooter); },
       "bytes for its counts"},
  };
  for (const auto& c : cases) {
    Crafted file(good);
    c.change(file);
    file.write(bad);
    const std::string message = message_of([&] { read_pairs_of(bad); });
    EXPECT_CONTAINS(message, c.expected) << c.what;
    EXPECT_CONTAINS(message, "bad.tokens") << c.what;
  }
  Crafted(good).write(bad);
  read_pairs_of(bad);  // the changes were what was refused
}

TEST(TokenFile, RefusesWhatIsNoFileOfTokens) {
  const TemporaryFolder folder;
  write_text(folder / "text", std::string(5000, 'x'));
  EXPECT_CONTAINS(message_of([&] { read_pairs_of(folder / "text"); }), "found another kind of file");
  write_text(folder / "zeros", std::string(5000, '\0'));
  EXPECT_CONTAINS(message_of([&] { read_pairs_of(folder / "zeros"); }), "found another kind of file");
  EXPECT_CONTAINS(message_of([&] { read_pairs_of(folder / "none"); }), "No such file");
  EXPECT_CONTAINS(message_of([&] { read_pairs_of(folder.path()); }), "found a folder");
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_CONTAINS(message_of([&] { read_pairs_of(folder / "fifo"); }), "found a pipe");
}

TEST(TokenFile, NoticesThatItShrinksWhileItIsRead) {
  const TemporaryFolder folder;
  const TokenFile file(write_pairs(folder / "f.tokens"), kPairs);
  fs::resize_file(folder / "f.tokens", 70);
  Ids ids;
  EXPECT_CONTAINS(message_of([&] { file.append(0, 0, ids); }), "a file that keeps its size");
  std::vector<int64_t> lengths(1);
  EXPECT_CONTAINS(message_of([&] { file.lengths(0, lengths); }), "a file that keeps its size");
}

// A new file under the same name is another file: who reads the old one goes on reading it.
TEST(TokenFile, StaysReadableWhenItIsReplaced) {
  const TemporaryFolder folder;
  const TokenFile file(write_pairs(folder / "f.tokens"), kPairs);
  TokenFileWriter(folder / "f.tokens", kPairs).commit();
  Ids ids;
  file.append(0, 0, ids);
  EXPECT_EQ(ids, kSides[0][0]);
}

}  // namespace
}  // namespace heed::train
