// SentencePiece's models, vocabularies, and lines of text.
#include "malformed/cases.h"

namespace heed::malformed {
namespace {

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// Fields of a protocol buffer.
std::string field(int number, std::string_view bytes) {
  return varint(static_cast<uint64_t>(number) << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
std::string number_field(int number, uint64_t value) {
  return varint(static_cast<uint64_t>(number) << 3) + varint(value);
}

std::string piece(std::string_view text, float score, uint64_t type = 1) {
  return field(1, field(1, text) + varint(2 << 3 | 5) + bytes_of(score) + number_field(3, type));
}

const std::string kSpecial = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3);

// The smallest trie that the check lets through, and strings behind it.
std::string character_map(uint32_t trie_bytes, std::string_view units, std::string_view strings) {
  std::string trie(units);
  trie.resize(1024, '\0');
  return bytes_of(trie_bytes) + trie + std::string(strings);
}

void add_sentencepiece(Cases& cases) {
  const auto bad = [&](std::string_view kind, std::string contents, std::string_view reason) {
    cases.bad("sentencepiece", kind, std::move(contents), reason);
  };
  const std::string good = kSpecial + piece("\xe2\x96\x81", -1) + piece("a", -2) + piece("The", -3);
  cases.good("sentencepiece", "six pieces", good);
  bad("empty", "", "with pieces; found none");
  bad("a text", "# vocabulary\na\nb\n", "byte");
  bad("number of 11 bytes", std::string(11, '\xff'), "at most ten bytes");
  bad("number that does not end", good + "\x80", "1 more bytes");
  bad("length beyond the file", good + "\x0a\x7f", "a field is cut off");
  bad("length 2^63", good + "\x0a" + varint(uint64_t{1} << 63), "a field is cut off");
  bad("cut off", good.substr(0, good.size() - 1), "cut off");
  bad("a group", good + "\x0b\x0c", "unknown form");
  bad("wire type 7", good + "\x0f", "unknown form");
  bad("field 0", good + std::string("\0\0", 2), "SentencePiece model");
  bad("1,000 groups", std::string(1000, '\x0b'), "unknown form");
  bad("only unknown fields", field(99, std::string(1000, 'x')), "with pieces; found none");
  bad("a piece that is a number", number_field(1, 1), "with pieces; found none");
  bad("a piece cut off inside",
      kSpecial + field(1,
                       "\x0a\x05"
                       "a"),
      "cut off");
  bad("no unknown piece", piece("a", 0) + piece("b", 0), "SentencePiece model");
  bad("two unknown pieces", kSpecial + piece("<unk2>", 0, 2), "SentencePiece model");
  bad("a piece twice", good + piece("a", -2), "SentencePiece model");
  bad("an empty piece", good + piece("", -2), "SentencePiece model");
  bad("a piece that begins with NUL", good + piece(std::string_view("\0b", 2), -2), "SentencePiece model; ");
  bad("type 99", good + piece("b", -2, 99), "piece 6 has another");
  bad("score NaN", good + piece("b", __builtin_nanf("")), "piece 6 has another");
  bad("score infinite", good + piece("b", -__builtin_inff()), "piece 6 has another");
  const auto mapped = [&](const std::string& map) { return good + field(3, field(2, map)); };
  bad("character map of 3 bytes", mapped("abc"), "character map");
  bad("trie longer than the map", mapped(character_map(1 << 20, "", std::string(1, '\0'))), "a trie inside of the map");
  bad("trie of 2^32 - 4 bytes", mapped(character_map(0xfffffffc, "", std::string(1, '\0'))),
      "a trie inside of the map");
  bad("trie of 1023 bytes", mapped(character_map(1023, "", std::string(1, '\0'))), "a trie inside of the map");
  bad("trie without strings", mapped(character_map(1024, "", "")), "a trie inside of the map");
  bad("strings that do not end", mapped(character_map(1024, "", "abc")), "strings that end");
  bad("trie whose link leaves it", mapped(character_map(1024, bytes_of(uint32_t{0x7ffffc00}), std::string(1, '\0'))),
      "links stay inside");
  bad("trie whose value leaves the strings",
      mapped(character_map(1024, bytes_of(uint32_t{0x100 | 1 << 10}) + bytes_of(uint32_t{0x7fffffff}),
                           std::string(1, '\0'))),
      "values lie in the strings");
}

void add_vocabulary(Cases& cases) {
  const auto bad = [&](std::string_view kind, std::string contents, std::string_view reason) {
    cases.bad("vocabulary", kind, std::move(contents), reason);
  };
  const std::string head = "heed-vocabulary 1 characters padding=0 begin=1 end=2 unknown=3\n";
  const std::string special = "<pad>\n<s>\n</s>\n<unk>\n";
  const std::string good = head + special + "a\nb\n";
  cases.good("vocabulary", "characters", good);
  cases.good("vocabulary", "pieces", replaced(good, "characters", "pieces") + "ab@@\n");
  bad("empty", "", "lines that end");
  bad("no line end", "heed-vocabulary 1 characters", "lines that end");
  bad("other text", "a\nb\n", "line 1");
  bad("byte order mark", "\xef\xbb\xbf" + good, "line 1");
  bad("another version", replaced(good, "vocabulary 1", "vocabulary 2"), "line 1");
  bad("another kind", replaced(good, "characters", "words"), "the kind characters or pieces");
  bad("an id that is missing", replaced(good, " end=2", ""), "line 1");
  bad("an id that is text", replaced(good, "begin=1", "begin=one"), "line 1");
  bad("an id beyond 2^63", replaced(good, "begin=1", "begin=99999999999999999999"), "line 1");
  bad("an id beyond the vocabulary", replaced(good, "begin=1", "begin=6"), "special ids from -1");
  bad("an id of -2", replaced(good, "begin=1", "begin=-2"), "special ids from -1");
  bad("more after the ids", replaced(good, "unknown=3", "unknown=3 x"), "nothing after the special ids");
  bad("no tokens", head, "vocabulary");
  bad("last line cut off", good + "c", "lines that end");
  bad("a token twice", good + "a\n", "\"a\" comes twice");
  bad("an empty token", good + "\n", "token 6");
  bad("a character of two letters", good + "ab\n", "token 6");
  bad("no UTF-8", good + "\xff\n", "token 6");
  bad("unknown escape", good + "\\x\n", "line 8");
  bad("escape cut off", good + "\\\n", "line 8");
}

void add_lines(Cases& cases) {
  const auto bad = [&](std::string_view kind, std::string contents, std::string_view reason) {
    cases.bad("lines", kind, std::move(contents), reason);
  };
  cases.good("lines", "two lines", "a\nb\r\n");
  bad("empty", "", "text.txt");
  bad("no UTF-8", "a\nb\xff\n", "2");
  bad("overlong UTF-8", "\xc0\xaf\n", "1");
  bad("half of a surrogate pair", "\xed\xa0\x80\n", "1");
  bad("beyond the last character", "\xf4\x90\x80\x80\n", "1");
  bad("UTF-8 cut off at the end", "a\n\xe4\xb8", "2");
  const std::string gzip =
      std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\xe4\x02\0\x07\xa1\xea\xdd\x02\0\0\0", 22);  // "a\n"
  cases.good("lines", "gzip", gzip);
  bad("gzip of the first bytes", gzip.substr(0, 2), "whole gzip file");
  bad("gzip without data", gzip.substr(0, 10), "whole gzip file");
  bad("gzip cut off", gzip.substr(0, gzip.size() - 1), "whole gzip file");
  bad("gzip with another CRC", patched(gzip, 14, "x"), "whole gzip file");
  bad("gzip with another length", patched(gzip, 18, "x"), "whole gzip file");
  bad("gzip of another method", patched(gzip, 2, "\x07"), "whole gzip file");
}

}  // namespace

void add_text(Cases& cases) {
  add_sentencepiece(cases);
  add_vocabulary(cases);
  add_lines(cases);
}

}  // namespace heed::malformed
