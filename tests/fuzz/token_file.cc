// A part of a token cache, of 2-sided sentences. The checksums of header, footer and index are made right.
#include <cstring>

#include "base/files.h"
#include "fuzz/target.h"
#include "train/token_file.h"

namespace {

constexpr size_t kHeaderBytes = 64, kFooterBytes = 128;
constexpr heed::train::TokenFileKind kKind{.fingerprint = 7, .part = 0, .sides = 2, .id_bytes = 2, .vocabulary = 100};

void put(std::string& file, size_t at, uint32_t value) { std::memcpy(file.data() + at, &value, sizeof value); }
int64_t number_at(const std::string& file, size_t at) {
  int64_t value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

// Where the counts are those of a file of this size, its index and its sums are summed as well.
std::string sealed(std::string_view contents) {
  std::string file(contents);
  if (file.size() < kHeaderBytes + kFooterBytes) return file;
  const size_t footer = file.size() - kFooterBytes;
  const int64_t sentences = number_at(file, footer + 16), tokens = number_at(file, footer + 24);
  if (tokens >= 0 && tokens < 1000 && sentences >= 0 && sentences < 1000) {
    const auto padded = [](int64_t bytes) { return static_cast<size_t>((bytes + 7) / 8 * 8); };
    const size_t index = kHeaderBytes + padded(tokens * 2), index_bytes = static_cast<size_t>(sentences * 2 + 1) * 4;
    const size_t sums = index + padded(static_cast<int64_t>(index_bytes)), sums_bytes = tokens > 0 ? 4 : 0;
    if (sums + sums_bytes <= footer) {
      const std::string_view all = file;
      if (sums_bytes > 0)
        put(file, sums, heed::files::crc32(all.substr(kHeaderBytes, static_cast<size_t>(tokens) * 2)));
      put(file, footer + 72, heed::files::crc32(all.substr(index, index_bytes)));
      put(file, footer + 76, heed::files::crc32(all.substr(sums, sums_bytes)));
    }
  }
  const std::string_view all = file;
  put(file, file.size() - 4,
      heed::files::crc32(all.substr(footer, kFooterBytes - 4), heed::files::crc32(all.substr(0, kHeaderBytes))));
  return file;
}

void read(const heed::fuzz::Path& file) {
  const heed::train::TokenFile tokens(file, kKind);
  heed::train::Ids ids;
  for (int64_t i = 0; i < tokens.counts().sentences; ++i) {
    tokens.append(i, 0, ids);
    tokens.append(i, 1, ids);
  }
}

}  // namespace

HEED_FUZZ_TARGET(token_file, .file = "part-0.tokens", .read = read, .seal = sealed)
