// Checked reading and atomic writing. POSIX calls only: std::fstream does not say what went wrong.
#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "heed/error.h"

namespace heed::files {
namespace {

constexpr int64_t kChunk = int64_t{1} << 20;

std::string words(int error) { return std::generic_category().message(error); }

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

int sync_descriptor(int descriptor) {
  int result;
  do {
    result = ::fsync(descriptor);
  } while (result != 0 && errno == EINTR);
  // Some file systems cannot sync folders; that is not a failed write.
  return result != 0 && errno == EINVAL ? 0 : result;
}

}  // namespace

std::string quoted(const Path& file) {
  std::string text = "\"";
  for (const char c : file.string()) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return text + "\"";
}

InputFile::InputFile(Path file, std::string_view function) : path_(std::move(file)), function_(function) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) fail("a file that can be read; " + words(errno));
  struct stat info {};
  const int result = ::fstat(descriptor_, &info);
  const int error = errno;
  if (result == 0 && S_ISREG(info.st_mode)) {
    size_ = info.st_size;
    return;
  }
  ::close(descriptor_);
  descriptor_ = -1;
  if (result != 0) fail("a file that can be read; " + words(error));
  fail(std::string("a regular file; found ") + kind_of(info.st_mode));
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::read_at(int64_t offset, void* to, int64_t bytes) const {
  if (offset < 0 || bytes < 0 || offset > size_ || bytes > size_ - offset) {
    fail("bytes " + std::to_string(offset) + " to " + std::to_string(offset) + " + " + std::to_string(bytes) +
         "; the file has " + std::to_string(size_));
  }
  char* out = static_cast<char*>(to);
  while (bytes > 0) {
    const size_t wanted = static_cast<size_t>(std::min<int64_t>(bytes, int64_t{1} << 30));
    const ssize_t got = ::pread(descriptor_, out, wanted, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("a file that can be read; " + words(errno));
    if (got == 0) fail("a file that keeps its size while it is read; it ends at byte " + std::to_string(offset));
    out += got;
    offset += got;
    bytes -= got;
  }
}

void InputFile::fail(std::string_view what) const { heed::fail(function_, quoted(path_), ": ", what); }

std::string read_all(const Path& file, int64_t limit, std::string_view function) {
  const InputFile input(file, function);
  if (input.size() > limit) {
    input.fail("at most " + std::to_string(limit) + " bytes; found " + std::to_string(input.size()));
  }
  std::string contents(static_cast<size_t>(input.size()), '\0');
  input.read_at(0, contents.data(), input.size());
  return contents;
}

void Reader::seek(int64_t position) {
  if (position < 0 || position > static_cast<int64_t>(bytes_.size())) {
    fail("a position inside; found " + std::to_string(position));
  }
  position_ = position;
}

std::string_view Reader::bytes(int64_t count) {
  if (count < 0 || count > remaining()) {
    fail(std::to_string(count) + " more bytes; " + std::to_string(remaining()) + " are left");
  }
  const std::string_view taken = bytes_.substr(static_cast<size_t>(position_), static_cast<size_t>(count));
  position_ += count;
  return taken;
}

uint64_t Reader::number(int64_t width) {
  const std::string_view raw = bytes(width);
  uint64_t value = 0;
  for (size_t i = raw.size(); i-- > 0;) value = (value << 8) | static_cast<uint8_t>(raw[i]);
  return value;
}

int64_t Reader::i63(std::string_view what) {
  const uint64_t value = number(8);
  if (value > static_cast<uint64_t>(INT64_MAX)) fail(std::string(what) + " below 2^63; found " + std::to_string(value));
  return static_cast<int64_t>(value);
}

void Reader::fail(std::string_view what) const { heed::fail(function_, name_, ", byte ", position_, ": ", what); }

Path behind_links(Path file, std::string_view function) {
  constexpr int kMostLinks = 40;  // as the system has it
  const Path asked = file;
  std::error_code ignored;
  for (int links = 0; std::filesystem::is_symlink(file, ignored); ++links) {
    require(links < kMostLinks, function, quoted(asked), ": a file; found links in a circle");
    file = file.parent_path() / std::filesystem::read_symlink(file, ignored);
  }
  return file;
}

AtomicFile::AtomicFile(const Path& file, std::string_view function) : file_(file), function_(function) {
  struct stat info {};
  if (::stat(file_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    heed::fail(function_, quoted(file_), ": a regular file or a new name to write to; found ", kind_of(info.st_mode));
  }
  file_ = behind_links(file, function);
  require(file_.has_filename(), function_, quoted(file_), ": the name of a file to write");
  static std::atomic<uint64_t> count{0};
  temporary_ = file_.parent_path() / ("." + file_.filename().string() + "." + std::to_string(::getpid()) + "-" +
                                      std::to_string(count++) + ".tmp");
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0) {
    const int error = errno;
    temporary_.clear();
    fail("written", error);
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) { write(bytes.data(), static_cast<int64_t>(bytes.size())); }

void AtomicFile::write(const void* data, int64_t bytes) {
  const char* from = static_cast<const char*>(data);
  if (static_cast<int64_t>(pending_.size()) + bytes < kChunk) {
    pending_.append(from, static_cast<size_t>(bytes));
    return;
  }
  flush();
  while (bytes > 0) {
    const size_t wanted = static_cast<size_t>(std::min<int64_t>(bytes, int64_t{1} << 30));
    const ssize_t done = ::write(descriptor_, from, wanted);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("written", errno);
    from += done;
    bytes -= done;
    written_ += done;
  }
}

void AtomicFile::flush() {
  size_t begin = 0;
  while (begin < pending_.size()) {
    const ssize_t done = ::write(descriptor_, pending_.data() + begin, pending_.size() - begin);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("written", errno);
    begin += static_cast<size_t>(done);
    written_ += done;
  }
  pending_.clear();
}

void AtomicFile::commit() {
  flush();
  if (sync_descriptor(descriptor_) != 0) fail("synced", errno);
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 && errno != EINTR) fail("written", errno);
  if (::rename(temporary_.c_str(), file_.c_str()) != 0) fail("renamed to its final name", errno);
  temporary_.clear();
  sync_folder(file_.parent_path(), function_);
}

void AtomicFile::fail(std::string_view doing, int error) {
  heed::fail(function_, quoted(file_), ": a file that can be ", doing, "; ", words(error));
}

void write_atomically(const Path& file, std::string_view contents, std::string_view function) {
  AtomicFile out(file, function);
  out.write(contents);
  out.commit();
}

void sync_folder(const Path& folder, std::string_view function) {
  const Path name = folder.empty() ? Path(".") : folder;
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool ok = descriptor >= 0 && sync_descriptor(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!ok) heed::fail(function, quoted(name), ": a folder that can be synced; ", words(error));
}

uint32_t crc32(std::string_view bytes, uint32_t before) {
  return static_cast<uint32_t>(
      ::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<z_size_t>(bytes.size())));
}

uint32_t crc32_of_both(uint32_t first, uint32_t second, int64_t second_bytes) {
  return static_cast<uint32_t>(::crc32_combine(first, second, second_bytes));
}

Checksum checksum(const Path& file) {
  const InputFile input(file, "checksum");
  std::string chunk(static_cast<size_t>(std::min(kChunk, input.size())), '\0');
  Checksum sum{.size = input.size(), .crc = crc32({})};
  for (int64_t at = 0; at < input.size(); at += kChunk) {
    const int64_t count = std::min(kChunk, input.size() - at);
    input.read_at(at, chunk.data(), count);
    sum.crc = crc32(std::string_view(chunk).substr(0, static_cast<size_t>(count)), sum.crc);
  }
  return sum;
}

std::string to_string(const Checksum& checksum) {
  std::string hex(8, '0');
  for (size_t i = 0; i < 8; ++i) hex[i] = "0123456789abcdef"[(checksum.crc >> (28 - 4 * i)) & 15];
  return "crc32:" + hex + ":" + std::to_string(checksum.size);
}

}  // namespace heed::files
