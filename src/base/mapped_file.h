// A file whose bytes are read through memory: the system fetches what is touched, and may drop it again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace heed::files {

// What the bytes of a mapped file are for.
enum class MapFor {
  lookups,  // read here and there, never written; check() works
  memory,   // taken as memory of this process: read in order, and what is written into it never reaches the file
};

// A regular file, mapped for reading. It stays readable when its name is removed or given to another file. Where
// another process makes it shorter, reading ends the program (SIGBUS). check() notices what happened before it, but not
// what happens between it and the reading.
class MappedFile {
 public:
  // `function` is named in every message. Refuses what InputFile refuses.
  MappedFile(std::filesystem::path file, std::string_view function, MapFor use = MapFor::lookups);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] int64_t size() const { return size_; }
  [[nodiscard]] std::string_view bytes() const { return {data_, static_cast<size_t>(size_)}; }
  // For MapFor::memory only: bytes that may be written.
  [[nodiscard]] char* writable() const { return data_; }
  // Throws Error where the file has another size than when it was opened.
  void check() const;
  // Makes the system fetch the bytes [begin, begin + bytes), as far as the file has them. To be called before they are
  // read in order: otherwise each page is fetched alone, when it is touched.
  void will_read(int64_t begin, int64_t bytes) const;
  // The pages that were read no longer count as memory of this process. They are fetched again when they are read.
  void release() const;
  [[noreturn]] void fail(std::string_view what) const;
  void require(bool ok, std::string_view what) const {
    if (!ok) fail(what);
  }

 private:
  std::filesystem::path path_;
  std::string function_;
  int descriptor_ = -1;
  int64_t size_ = 0;
  char* data_ = nullptr;
};

// The pages of [data, data + bytes) no longer count as memory of this process, as far as they belong to a file that is
// mapped for MapFor::memory: they are fetched again when they are read. Nobody may have written into them: that would
// be lost. Other memory stays as it is.
void give_pages_back(const void* data, int64_t bytes);

}  // namespace heed::files
