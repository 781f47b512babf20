// What a training writes: its state, and the tokens of its text.
#include "malformed/cases.h"

namespace heed::malformed {
namespace {

void add_checkpoint(Cases& cases) {
  const auto bad = [&](std::string_view kind, std::string contents, std::string_view reason) {
    cases.bad("checkpoint", kind, std::move(contents), reason);
  };
  const std::string state =
      "{\"format\":1,\"update\":1,\"epoch\":0,\"position\":0,\"adam_steps\":1,\"without_better\":0,\"best\":null,"
      "\"best_update\":-1,\"loss_sum\":0.5,\"loss_tokens\":3,\"seconds\":1.5,\"data_checksum\":7,\"scheduled\":true,"
      "\"recipe\":\"{}\",\"files\":{\"config.json\":\"crc32:44e31e48:2\"}}";
  // (The good one needs the checksums of its three files: checkpoint_test has it.)
  bad("empty", "", "no such JSON");
  bad("cut off", state.substr(0, 40), "no such JSON");
  bad("a list", "[]", "no table");
  bad("another format", replaced(state, "\"format\":1", "\"format\":2"), "format 2");
  bad("no format", replaced(state, "\"format\":1,", ""), "format");
  bad("no update", replaced(state, "\"update\":1,", ""), "update");
  bad("update text", replaced(state, "\"update\":1", "\"update\":\"1\""), "update \"1\"");
  bad("update of another step", replaced(state, "\"update\":1", "\"update\":2"), "step-00000001");
  bad("update -2", replaced(state, "\"update\":1", "\"update\":-2"), "update -2");
  bad("update 2^62", replaced(state, "\"update\":1", "\"update\":4611686018427387904"), "update 4611686018427387904");
  bad("update 2^64", replaced(state, "\"update\":1", "\"update\":18446744073709551616"), "update");
  bad("epoch null", replaced(state, "\"epoch\":0", "\"epoch\":null"), "null");
  bad("best text", replaced(state, "\"best\":null", "\"best\":\"x\""), "string");
  bad("scheduled a number", replaced(state, "\"scheduled\":true", "\"scheduled\":1"), "boolean");
  bad("recipe a number", replaced(state, "\"recipe\":\"{}\"", "\"recipe\":1"), "string");
  bad("checksum of the data negative", replaced(state, "\"data_checksum\":7", "\"data_checksum\":-7"), "data_checksum");
  bad("checksum of the data 2^32", replaced(state, "\"data_checksum\":7", "\"data_checksum\":4294967296"),
      "data_checksum");
  bad("no files", replaced(state, ",\"files\":{\"config.json\":\"crc32:44e31e48:2\"}", ""), "files");
  bad("files a list", replaced(state, "{\"config.json\":\"crc32:44e31e48:2\"}", "[]"), "checksum ");
  bad("a file's checksum a number", replaced(state, "\"crc32:44e31e48:2\"", "1"), "config.json");
  bad("another checksum of a file", replaced(state, "44e31e48", "44e31e49"), "config.json");
  bad("a file that is missing", state, "checksum ");
}

void add_cache_plan(Cases& cases) {
  const auto bad = [&](std::string_view kind, std::string contents, std::string_view reason) {
    cases.bad("cache_plan", kind, std::move(contents), reason);
  };
  const std::string good =
      "{\"texts\":[{\"bytes\":4,\"crc32\":7,\"path\":\"a.txt\",\"modified\":5}],\"part_bytes\":100,\"lines\":2,"
      "\"parts\":[[0,0,0],[1,2,0]],\"split\":null,\"held_back\":null,\"vocabulary\":null,\"tokenizers\":{},"
      "\"fingerprint\":9}";
  cases.good("cache_plan", "two parts", good);
  bad("empty", "", "JSON");
  bad("cut off", good.substr(0, 50), "JSON");
  bad("a list", "[]", "the key texts");
  bad("texts a number", replaced(good, "[{\"bytes\":4,\"crc32\":7,\"path\":\"a.txt\",\"modified\":5}]", "1"),
      "texts: a list");
  bad("no path", replaced(good, ",\"path\":\"a.txt\"", ""), "the key path");
  bad("path a number", replaced(good, "\"a.txt\"", "1"), "path: text");
  bad("bytes negative", replaced(good, "\"bytes\":4", "\"bytes\":-4"), "bytes: a number");
  bad("crc32 of 33 bits", replaced(good, "\"crc32\":7", "\"crc32\":4294967296"), "crc32: a number");
  bad("modified 2^63", replaced(good, "\"modified\":5", "\"modified\":9223372036854775808"), "modified: a number");
  bad("parts of 0 bytes", replaced(good, "\"part_bytes\":100", "\"part_bytes\":0"), "part_bytes: a number");
  bad("no lines", replaced(good, "\"lines\":2", "\"lines\":0"), "lines: a number");
  bad("no parts", replaced(good, "[[0,0,0],[1,2,0]]", "[]"), "1 to 1,000,000 parts; found 0");
  bad("a part of two numbers", replaced(good, "[1,2,0]", "[1,2]"), "lists of three numbers");
  bad("parts that go back", replaced(good, "[1,2,0]", "[0,2,0]"), "the first line of a part");
  bad("a part beyond the lines", replaced(good, "[1,2,0]", "[2,2,0]"), "the first line of a part");
  bad("a part that begins before the last", replaced(good, "[0,0,0]", "[0,3,0]"), "the begin of a part");
  bad("a first part that is not the first line", replaced(good, "[[0,0,0],[1,2,0]]", "[[1,0,0]]"),
      "begins with the first");
  bad("tokenizers a list", replaced(good, "\"tokenizers\":{}", "\"tokenizers\":[]"), "tokenizers: a table");
  bad("held_back a number", replaced(good, "\"held_back\":null", "\"held_back\":1"), "the key bytes");
  bad("fingerprint negative", replaced(good, "\"fingerprint\":9", "\"fingerprint\":-9"), "fingerprint: a number");
  bad("a key twice", replaced(good, "\"lines\":2", "\"lines\":2,\"lines\":2"), "twice");
}

// Two sentences with two sides, ids of 2 bytes. The checksums are made right when it is written.
std::string tokens(const std::vector<uint16_t>& ids, const std::vector<uint32_t>& index) {
  std::string file = "heedtok\n" + bytes_of(uint32_t{1}) + bytes_of(uint32_t{0x01020304}) + bytes_of(uint32_t{2}) +
                     bytes_of(uint32_t{2}) + bytes_of(uint64_t{0}) + bytes_of(uint64_t{7});
  file.resize(64, '\0');
  const auto pad = [&] { file.resize((file.size() + 7) / 8 * 8, '\0'); };
  for (const uint16_t id : ids) file += bytes_of(id);
  pad();
  for (const uint32_t entry : index) file += bytes_of(entry);
  pad();
  file += bytes_of(uint32_t{0});  // of the ids
  pad();
  // lines, left out, sentences, tokens, longest, longer sides, tokens of each side
  for (const int64_t count : {2, 0, 2, 5, 2, 3, 2, 3}) file += bytes_of(count);
  file.resize(file.size() + 64, '\0');
  return file;
}

void add_token_file(Cases& cases) {
  const auto bad = [&](std::string_view kind, std::string contents, std::string_view reason) {
    cases.bad("token_file", kind, std::move(contents), reason);
  };
  const std::string good = tokens({1, 2, 3, 4, 5}, {0, 1, 3, 4, 5});
  const size_t footer = good.size() - 128;
  const auto count = [&](int which, int64_t value) {
    return patched(good, footer + 8 * static_cast<size_t>(which), bytes_of(value));
  };
  cases.good("token_file", "two sentences", good);
  bad("empty", "", "found 0 bytes");
  bad("191 bytes", good.substr(0, 191), "found 191 bytes");
  bad("another kind of file", patched(good, 0, "x"), "another kind of file");
  bad("version 2", patched(good, 8, "\2"), "found 2 at byte 8");
  bad("the other byte order", patched(good, 12, "\1\2\3\4"), "byte order");
  bad("ids of 4 bytes", patched(good, 16, "\4"), "found others");
  bad("one side", patched(good, 20, "\1"), "found others");
  bad("another part", patched(good, 24, "\1"), "found others");
  bad("another text", patched(good, 32, "\1"), "found others");
  bad("tokens negative", count(3, -1), "a count below 2^63");
  bad("2^62 tokens", count(3, int64_t{1} << 62), "as many ids as fit the file's");
  bad("2^62 sentences", count(2, int64_t{1} << 62), "as many ids as fit the file's");
  bad("more tokens", count(3, 50), "bytes for its counts");
  bad("fewer tokens", count(3, 1), "bytes for its counts");
  bad("more sentences", count(2, 9), "bytes for its counts");
  bad("sides that do not add up", count(6, 1), "counts that fit together");
  bad("sides that overflow", patched(count(6, INT64_MAX), footer + 56, bytes_of(INT64_MAX)),
      "counts that fit together");
  bad("more lines left out than there are", count(1, 3), "counts that fit together");
  bad("longest that is not", count(4, 3), "fits the counts");
  bad("longer sides that are not", count(5, 4), "fits the counts");
  bad("index that does not begin at 0", tokens({1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}), "an index of all ids");
  bad("index that ends early", tokens({1, 2, 3, 4, 5}, {0, 1, 2, 3, 4}), "an index of all ids");
  bad("index that goes back", tokens({1, 2, 3, 4, 5}, {0, 3, 1, 4, 5}), "entry 1");
  bad("index beyond the ids", tokens({1, 2, 3, 4, 5}, {0, 1, 4294967295U, 4, 5}), "entry 2");
  bad("an empty side", tokens({1, 2, 3, 4, 5}, {0, 1, 1, 4, 5}), "entry 1");
  bad("an id beyond the vocabulary", tokens({1, 2, 100, 4, 5}, {0, 1, 3, 4, 5}), "ids below 100; found 100");
  bad("bytes inserted", std::string(good).insert(footer, 8, '\0'), "bytes for its counts");
}

}  // namespace

void add_training(Cases& cases) {
  add_checkpoint(cases);
  add_cache_plan(cases);
  add_token_file(cases);
}

}  // namespace heed::malformed
