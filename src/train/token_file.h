// A part of a training text as tokens, in a file that is written once and mapped into memory.
//
//   header   64 bytes: "heedtok\n", version, byte order, bytes an id, sides, number of the part, fingerprint
//   ids      of sentence after sentence, source then target; 2 bytes each where the vocabulary allows, else 4
//   index    for sentences: u32, where each side begins, counted in ids, and the number of all; none for a stream
//   sums     u32, the CRC-32 of each megabyte of ids
//   footer   128 bytes: counts, and the CRC-32 of header and footer, of the index and of the sums
//
// Numbers are little-endian; ids, index and sums are filled up to 8 bytes. Counts stand at the end because they are
// known last. Opening a file compares its size with the counts and checks header, footer, index and sums; each
// megabyte of ids is checked when it is first read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/mapped_file.h"
#include "train/sentences.h"

namespace heed::train {

inline constexpr const char* kTokenCache = "token_cache";  // the name of the function, in errors

// What a file must say of itself to be the one that is looked for.
struct TokenFileKind {
  uint64_t fingerprint = 0;  // of the text, the tokenizers and all else that decides the ids
  int64_t part = 0;
  int sides = 1;  // 2: translation; 0: one stream
  int id_bytes = 4;
  int64_t vocabulary = 0;  // ids are below; not in the file
};

struct TokenCounts {
  int64_t lines = 0;         // of the text
  int64_t left_out = 0;      // sentences
  int64_t sentences = 0;     // that are there
  int64_t tokens = 0;        // of all sides
  int64_t longest = 0;       // tokens of the longest side of a sentence
  int64_t longer_sides = 0;  // tokens of the longer side of each sentence, added up
  struct Side {
    int64_t tokens = 0;
    uint32_t checksum = 0;  // checksum_of(), from 0; of a stream checksum_of_stream()
  } side[2];
};

class TokenFileWriter {
 public:
  TokenFileWriter(const std::filesystem::path& file, const TokenFileKind& kind);
  void add_line() { ++counts_.lines; }
  void leave_out() { ++counts_.left_out; }
  void add_sentence(std::span<const Ids> sides);
  void add_to_stream(std::span<const int32_t> ids);
  void commit();

 private:
  void write_ids(std::span<const int32_t> ids);
  void write_padded(const void* data, int64_t bytes);

  files::AtomicFile file_;
  TokenFileKind kind_;
  TokenCounts counts_;
  std::string header_;
  std::vector<uint32_t> index_;
  std::vector<uint32_t> sums_;
  int64_t in_chunk_ = 0;  // bytes of the last of sums_
  std::vector<uint16_t> narrow_;
};

// For one thread at a time.
class TokenFile {
 public:
  // Throws Error that names the file and what is wrong with it.
  TokenFile(const std::filesystem::path& file, const TokenFileKind& kind);

  [[nodiscard]] const TokenCounts& counts() const { return counts_; }
  // As those of Sentences and Stream, inside of this part. Throws Error where the ids are damaged.
  void lengths(int64_t first, std::span<int64_t> lengths) const;
  void append(int64_t sentence, int side, Ids& to) const;
  void read(int64_t first, std::span<int32_t> to) const;
  void release() const { file_.release(); }

 private:
  [[nodiscard]] uint32_t index(int64_t i) const;
  void check_index(uint32_t crc) const;
  void check_chunk(int64_t chunk) const;

  files::MappedFile file_;
  TokenFileKind kind_;
  TokenCounts counts_;
  int64_t index_at_ = 0, sums_at_ = 0;
  mutable std::vector<bool> checked_;  // chunks
};

}  // namespace heed::train
