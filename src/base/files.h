// Files: opened and read with every size checked, written beside and renamed.
//
// Whatever is wrong with a file (missing, a directory, a FIFO, too short, no space) arrives as a heed::Error that names
// the function that was called, the file and what was expected. Nothing is allocated from a number found in a file
// before that number has been compared with the size of the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace heed::files {

using Path = std::filesystem::path;

// The path as messages show it: in quotes, control characters replaced.
[[nodiscard]] std::string quoted(const Path& file);

// A regular file, open for reading. Its size is what fstat said when it was opened; a file that shrinks later makes
// read_at() throw.
class InputFile {
 public:
  // `function` is named in every message. Refuses directories, FIFOs, sockets and devices.
  InputFile(Path file, std::string_view function);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] const Path& path() const { return path_; }
  [[nodiscard]] int64_t size() const { return size_; }
  // Reads exactly `bytes` bytes at `offset`; both must lie inside the file.
  void read_at(int64_t offset, void* to, int64_t bytes) const;
  // Throws Error("[function] "file": parts...").
  [[noreturn]] void fail(std::string_view what) const;
  void require(bool ok, std::string_view what) const {
    if (!ok) fail(what);
  }

 private:
  Path path_;
  std::string function_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

// The whole file. Throws Error when it has more than `limit` bytes.
[[nodiscard]] std::string read_all(const Path& file, int64_t limit, std::string_view function);

// Little-endian numbers and runs of bytes, taken one after the other from bytes in memory. Reading past the end is an
// Error that says where.
class Reader {
 public:
  // `name` says in messages what is read, e.g. the quoted file name.
  Reader(std::string_view bytes, std::string name, std::string_view function)
      : bytes_(bytes), name_(std::move(name)), function_(function) {}

  [[nodiscard]] int64_t position() const { return position_; }
  [[nodiscard]] int64_t remaining() const { return static_cast<int64_t>(bytes_.size()) - position_; }
  void seek(int64_t position);
  [[nodiscard]] std::string_view bytes(int64_t count);
  [[nodiscard]] uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  [[nodiscard]] uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  [[nodiscard]] uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  [[nodiscard]] uint64_t u64() { return number(8); }
  // u64 that must fit 63 bits.
  [[nodiscard]] int64_t i63(std::string_view what);
  [[noreturn]] void fail(std::string_view what) const;
  void require(bool ok, std::string_view what) const {
    if (!ok) fail(what);
  }

 private:
  [[nodiscard]] uint64_t number(int64_t width);

  std::string_view bytes_;
  std::string name_;
  std::string function_;
  int64_t position_ = 0;
};

// What a name stands for: links are followed, also to what is not there. Throws Error for links in a circle.
[[nodiscard]] Path behind_links(Path file, std::string_view function);

// A new file that appears under its name only when it is whole: written to a temporary file in the same folder, synced,
// renamed over `file`, and the folder synced. Without commit() nothing is left behind.
class AtomicFile {
 public:
  AtomicFile(const Path& file, std::string_view function);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  void write(const void* data, int64_t bytes);
  [[nodiscard]] int64_t written() const { return written_ + static_cast<int64_t>(pending_.size()); }
  void commit();

 private:
  void flush();
  [[noreturn]] void fail(std::string_view doing, int error);

  Path file_;
  Path temporary_;
  std::string function_;
  std::string pending_;  // small pieces are collected: one system call a megabyte
  int descriptor_ = -1;
  int64_t written_ = 0;
};

void write_atomically(const Path& file, std::string_view contents, std::string_view function);
// Writes several files of `folder` together. write() fills a new folder inside of it. Once all of it is there, each
// file moves to its place by a rename, and `stale` files that were not written again are removed; names are relative to
// `folder`. Where write() throws, for want of space too, `folder` is as it was, and the message names `folder`.
void write_folder(const Path& folder, std::string_view function, std::span<const Path> stale,
                  const std::function<void(const Path&)>& write);
// fsync of a folder: renames and removals in it are durable.
void sync_folder(const Path& folder, std::string_view function);

// zlib's CRC-32: finds every single flipped bit and every burst up to 32 bits.
[[nodiscard]] uint32_t crc32(std::string_view bytes, uint32_t before = 0);
// The CRC-32 of two runs of bytes one after the other, from their two CRC-32s and the length of the second.
[[nodiscard]] uint32_t crc32_of_both(uint32_t first, uint32_t second, int64_t second_bytes);

// Size and CRC-32 of a file, to be compared with what was written down when it was made.
struct Checksum {
  int64_t size = 0;
  uint32_t crc = 0;
  friend bool operator==(const Checksum&, const Checksum&) = default;
};
[[nodiscard]] Checksum checksum(const Path& file);
[[nodiscard]] std::string to_string(const Checksum& checksum);  // "crc32:89abcdef:1234"

[[nodiscard]] bool is_gzip(std::string_view bytes);
// The contents of a file, of any size, one block after the other: of a gzip file, what all its members hold.
class ByteStream {
 public:
  ByteStream(const Path& file, std::string_view function);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  [[nodiscard]] const InputFile& file() const { return file_; }
  // Fills `out` as far as there is something; 0 bytes is the end. Throws Error where gzip data is damaged, or gives
  // more than 2^28 bytes plus 200 times the file.
  [[nodiscard]] int64_t read(std::span<char> out);
  // Moves on to the byte `position` of the contents, which must not lie behind.
  void skip_to(int64_t position);
  [[nodiscard]] int64_t position() const { return position_; }

 private:
  [[nodiscard]] int64_t read_gzip(std::span<char> out);

  InputFile file_;
  int64_t position_ = 0;
  struct Gzip;
  std::unique_ptr<Gzip> gzip_;  // none: a plain file
};

// Raw deflate data that must give exactly out.size() bytes.
void inflate_exactly(std::string_view bytes, std::span<char> out, const std::string& name, std::string_view function);

}  // namespace heed::files
