#include "train/token_file.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "heed/error.h"

namespace heed::train {

namespace {

constexpr std::string_view kMagic = "heedtok\n";
constexpr uint32_t kVersion = 1, kByteOrder = 0x01020304;
constexpr int64_t kHeader = 64, kFooter = 128, kChunk = int64_t{1} << 20;
static_assert(std::endian::native == std::endian::little, "ids are read as they lie in the file");

int64_t padded(int64_t bytes) { return (bytes + 7) / 8 * 8; }

template <class T>
void put(std::string& to, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

std::string header_of(const TokenFileKind& kind) {
  std::string header(kMagic);
  put(header, kVersion);
  put(header, kByteOrder);
  put(header, static_cast<uint32_t>(kind.id_bytes));
  put(header, static_cast<uint32_t>(kind.sides));
  put(header, static_cast<uint64_t>(kind.part));
  put(header, kind.fingerprint);
  header.resize(kHeader, '\0');
  return header;
}

uint32_t load_u32(const char* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

int64_t chunks_of(int64_t tokens, int id_bytes) { return (tokens * id_bytes + kChunk - 1) / kChunk; }

}  // namespace

TokenFileWriter::TokenFileWriter(const std::filesystem::path& file, const TokenFileKind& kind)
    : file_(file, kTokenCache), kind_(kind), header_(header_of(kind)) {
  file_.write(header_);
}

void TokenFileWriter::write_ids(std::span<const int32_t> ids) {
  counts_.tokens += static_cast<int64_t>(ids.size());
  require(counts_.tokens <= UINT32_MAX, kTokenCache, "parts of fewer than 2^32 tokens; found more");
  const char* bytes = reinterpret_cast<const char*>(ids.data());
  if (kind_.id_bytes == 2) {
    narrow_.assign(ids.size(), 0);
    for (size_t i = 0; i < ids.size(); ++i) narrow_[i] = static_cast<uint16_t>(ids[i]);
    bytes = reinterpret_cast<const char*>(narrow_.data());
  }
  for (auto left = static_cast<int64_t>(ids.size()) * kind_.id_bytes; left > 0;) {
    if (sums_.empty() || in_chunk_ == kChunk) {
      sums_.push_back(0);
      in_chunk_ = 0;
    }
    const int64_t taken = std::min(left, kChunk - in_chunk_);
    const std::string_view run(bytes, static_cast<size_t>(taken));
    sums_.back() = files::crc32(run, sums_.back());
    file_.write(run);
    bytes += taken;
    left -= taken;
    in_chunk_ += taken;
  }
}

void TokenFileWriter::add_sentence(std::span<const Ids> sides) {
  size_t longer = 0;
  for (size_t s = 0; s < sides.size(); ++s) {
    index_.push_back(static_cast<uint32_t>(counts_.tokens));
    const Ids& ids = sides[s];
    const auto size = static_cast<int32_t>(ids.size());
    TokenCounts::Side& side = counts_.side[s];
    side.tokens += size;
    side.checksum = checksum_of_stream(ids, checksum_of_stream(std::span(&size, 1), side.checksum));
    write_ids(ids);
    longer = std::max(longer, ids.size());
  }
  ++counts_.sentences;
  counts_.longest = std::max(counts_.longest, static_cast<int64_t>(longer));
  counts_.longer_sides += static_cast<int64_t>(longer);
}

void TokenFileWriter::add_to_stream(std::span<const int32_t> ids) {
  counts_.side[0].tokens += static_cast<int64_t>(ids.size());
  counts_.side[0].checksum = checksum_of_stream(ids, counts_.side[0].checksum);
  write_ids(ids);
}

void TokenFileWriter::write_padded(const void* data, int64_t bytes) {
  file_.write(data, bytes);
  constexpr char kZeros[8] = {};
  file_.write(kZeros, padded(bytes) - bytes);
}

void TokenFileWriter::commit() {
  const int64_t data = counts_.tokens * kind_.id_bytes;
  file_.write(std::string(static_cast<size_t>(padded(data) - data), '\0'));
  if (kind_.sides > 0) index_.push_back(static_cast<uint32_t>(counts_.tokens));
  const auto bytes_of = [](const std::vector<uint32_t>& numbers) {
    return std::string_view(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(uint32_t));
  };
  write_padded(index_.data(), static_cast<int64_t>(bytes_of(index_).size()));
  write_padded(sums_.data(), static_cast<int64_t>(bytes_of(sums_).size()));
  std::string footer;
  for (const int64_t count : {counts_.lines, counts_.left_out, counts_.sentences, counts_.tokens, counts_.longest,
                              counts_.longer_sides, counts_.side[0].tokens, counts_.side[1].tokens}) {
    put(footer, count);
  }
  put(footer, counts_.side[0].checksum);
  put(footer, counts_.side[1].checksum);
  put(footer, files::crc32(bytes_of(index_)));
  put(footer, files::crc32(bytes_of(sums_)));
  footer.resize(kFooter - sizeof(uint32_t), '\0');
  put(footer, files::crc32(footer, files::crc32(header_)));
  file_.write(footer);
  file_.commit();
}

TokenFile::TokenFile(const std::filesystem::path& file, const TokenFileKind& kind)
    : file_(file, kTokenCache), kind_(kind) {
  const std::string_view all = file_.bytes();
  const int64_t size = file_.size();
  file_.require(size >= kHeader + kFooter, "a token file; found " + std::to_string(size) + " bytes");
  const std::string_view header = all.substr(0, kHeader), footer = all.substr(static_cast<size_t>(size - kFooter));
  file_.require(header.starts_with(kMagic), "a token file; found another kind of file at byte 0");
  const uint32_t version = load_u32(header.data() + 8), order = load_u32(header.data() + 12);
  file_.require(order == kByteOrder, "a token file of a little-endian machine; found another byte order");
  file_.require(version == kVersion, "version " + std::to_string(kVersion) + " of token files; found " +
                                         std::to_string(version) + " at byte 8");
  file_.require(header == header_of(kind),
                "the tokens of this text and these tokenizers, as bytes 16 to 63 say; found others");
  const std::string_view summed = footer.substr(0, kFooter - sizeof(uint32_t));
  file_.require(files::crc32(summed, files::crc32(header)) == load_u32(footer.data() + summed.size()),
                "a footer with the CRC-32 that it states; it is damaged");

  files::Reader reader(summed, files::quoted(file), kTokenCache);
  for (int64_t* const count : {&counts_.lines, &counts_.left_out, &counts_.sentences, &counts_.tokens, &counts_.longest,
                               &counts_.longer_sides, &counts_.side[0].tokens, &counts_.side[1].tokens}) {
    *count = reader.i63("a count");
  }
  counts_.side[0].checksum = reader.u32();
  counts_.side[1].checksum = reader.u32();
  const uint32_t index_crc = reader.u32(), sums_crc = reader.u32();

  // No product below overflows: both counts are at most the size of the file.
  file_.require(counts_.tokens <= size && counts_.sentences <= size,
                "as many ids as fit the file's " + std::to_string(size) + " bytes; found more");
  const int64_t entries = kind_.sides > 0 ? counts_.sentences * kind_.sides + 1 : 0;
  const int64_t chunks = chunks_of(counts_.tokens, kind_.id_bytes);
  constexpr auto kEntry = static_cast<int64_t>(sizeof(uint32_t));
  index_at_ = kHeader + padded(counts_.tokens * kind_.id_bytes);
  sums_at_ = index_at_ + padded(entries * kEntry);
  const int64_t expected = sums_at_ + padded(chunks * kEntry) + kFooter;
  file_.require(size == expected, std::to_string(expected) + " bytes for its counts; found " + std::to_string(size));
  file_.require(counts_.side[0].tokens <= counts_.tokens &&
                    counts_.side[1].tokens == counts_.tokens - counts_.side[0].tokens &&
                    counts_.left_out <= counts_.lines,
                "counts that fit together, from byte " + std::to_string(size - kFooter) + " on; found others");
  const std::string_view sums = all.substr(static_cast<size_t>(sums_at_), static_cast<size_t>(chunks * kEntry));
  file_.require(files::crc32(sums) == sums_crc, "checksums of the ids with the CRC-32 that is stated; found another");
  if (kind_.sides > 0) check_index(index_crc);
  checked_.assign(static_cast<size_t>(chunks), false);
  file_.release();
}

uint32_t TokenFile::index(int64_t i) const {
  return load_u32(file_.bytes().data() + index_at_ + i * static_cast<int64_t>(sizeof(uint32_t)));
}

void TokenFile::check_index(uint32_t crc) const {
  const int64_t entries = counts_.sentences * kind_.sides + 1;
  const std::string_view bytes =
      file_.bytes().substr(static_cast<size_t>(index_at_), static_cast<size_t>(entries) * sizeof(uint32_t));
  uint32_t found = files::crc32({});
  for (int64_t at = 0; at < static_cast<int64_t>(bytes.size()); at += kChunk) {
    file_.will_read(index_at_ + at, 2 * kChunk);  // the next megabyte is fetched while this one is looked at
    found = files::crc32(bytes.substr(static_cast<size_t>(at), static_cast<size_t>(kChunk)), found);
  }
  file_.require(found == crc, "an index with the CRC-32 that is stated; found another");
  file_.require(index(0) == 0 && index(entries - 1) == counts_.tokens,
                "an index of all ids from byte " + std::to_string(index_at_) + " on; found another");
  int64_t longest = 0, longer_sides = 0;
  for (int64_t i = 0; i + 1 < entries; i += kind_.sides) {
    const int64_t at = i * static_cast<int64_t>(sizeof(uint32_t));
    if (at % kChunk == 0) file_.will_read(index_at_ + at, 2 * kChunk);
    int64_t longer = 0;
    for (int64_t s = i; s < i + kind_.sides; ++s) {
      if (index(s) >= index(s + 1)) {  // not require(): it would make a text for every entry
        file_.fail("sentences of one id or more, one after the other; entry " + std::to_string(s) +
                   " of the index, at byte " + std::to_string(index_at_ + s * static_cast<int64_t>(sizeof(uint32_t))) +
                   ", is not below the next");
      }
      longer = std::max(longer, int64_t{index(s + 1)} - int64_t{index(s)});
    }
    longest = std::max(longest, longer);
    longer_sides += longer;
  }
  file_.require(longest == counts_.longest && longer_sides == counts_.longer_sides,
                "an index that fits the counts, from byte " + std::to_string(index_at_) + " on; found another");
}

void TokenFile::lengths(int64_t first, std::span<int64_t> lengths) const {
  file_.check();
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int64_t entry = (first + static_cast<int64_t>(i)) * kind_.sides;
    lengths[i] = 0;
    for (int64_t s = entry; s < entry + kind_.sides; ++s) {
      lengths[i] = std::max(lengths[i], int64_t{index(s + 1)} - int64_t{index(s)});
    }
  }
}

void TokenFile::append(int64_t sentence, int side, Ids& to) const {
  file_.check();
  const int64_t entry = sentence * kind_.sides + side;
  const int64_t begin = index(entry), end = index(entry + 1);
  const size_t before = to.size();
  to.resize(before + static_cast<size_t>(end - begin));
  read(begin, std::span(to).subspan(before));
}

void TokenFile::read(int64_t first, std::span<int32_t> to) const {
  if (to.empty()) return;
  file_.check();
  const int64_t begin = first * kind_.id_bytes, end = begin + static_cast<int64_t>(to.size()) * kind_.id_bytes;
  for (int64_t chunk = begin / kChunk; chunk * kChunk < end; ++chunk) check_chunk(chunk);
  const char* from = file_.bytes().data() + kHeader + begin;
  if (kind_.id_bytes == 4) {
    std::memcpy(to.data(), from, to.size() * sizeof(int32_t));
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t id;
    std::memcpy(&id, from + i * sizeof id, sizeof id);
    to[i] = id;
  }
}

void TokenFile::check_chunk(int64_t chunk) const {
  if (checked_[static_cast<size_t>(chunk)]) return;
  const int64_t data = counts_.tokens * kind_.id_bytes;
  const int64_t begin = chunk * kChunk, bytes = std::min(kChunk, data - begin);
  file_.will_read(kHeader + begin, bytes);
  const std::string_view ids = file_.bytes().substr(static_cast<size_t>(kHeader + begin), static_cast<size_t>(bytes));
  const uint32_t stated = load_u32(file_.bytes().data() + sums_at_ + chunk * static_cast<int64_t>(sizeof(uint32_t)));
  const std::string where = "ids with the CRC-32 that is stated; those from byte " + std::to_string(kHeader + begin) +
                            " on are damaged. Remove the file: the next run makes it anew";
  file_.require(files::crc32(ids) == stated, where);
  for (int64_t at = 0; at < bytes; at += kind_.id_bytes) {
    uint32_t id = 0;
    std::memcpy(&id, ids.data() + at, static_cast<size_t>(kind_.id_bytes));
    if (id < kind_.vocabulary) continue;
    file_.fail("ids below " + std::to_string(kind_.vocabulary) + "; found " + std::to_string(id) + " at byte " +
               std::to_string(kHeader + begin + at));
  }
  checked_[static_cast<size_t>(chunk)] = true;
  file_.release();
}

}  // namespace heed::train
