// gzip and deflate, through zlib, with a limit on what may come out.
#include <zlib.h>

#include <algorithm>

#include "base/files.h"
#include "heed/error.h"

namespace heed::files {
namespace {

constexpr size_t kOnce = size_t{1} << 30;  // zlib counts in 32 bits

class Inflater {
 public:
  explicit Inflater(int window_bits, std::string_view function) {
    require(inflateInit2(&stream_, window_bits) == Z_OK, function, "memory to decompress with; there is none");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Takes what it can from `in` (shortened by that) into `out`; returns the bytes written.
  size_t step(std::string_view& in, std::span<char> out) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(std::min(in.size(), kOnce));
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min(out.size(), kOnce));
    const uInt room = stream_.avail_out;
    const uInt offered = stream_.avail_in;
    status_ = inflate(&stream_, Z_NO_FLUSH);
    in.remove_prefix(offered - stream_.avail_in);
    return room - stream_.avail_out;
  }
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] std::string words() const { return stream_.msg != nullptr ? stream_.msg : "it ends too early"; }
  void reset() { inflateReset(&stream_); }

 private:
  z_stream stream_{};
  int status_ = Z_OK;
};

}  // namespace

bool is_gzip(std::string_view bytes) {
  return bytes.size() >= 2 && static_cast<uint8_t>(bytes[0]) == 0x1f && static_cast<uint8_t>(bytes[1]) == 0x8b;
}

std::string gunzip(std::string_view bytes, int64_t limit, const std::string& name, std::string_view function) {
  Inflater inflater(15 + 16, function);
  std::string out;
  std::string chunk(size_t{1} << 18, '\0');
  while (true) {
    const size_t got = inflater.step(bytes, chunk);
    require(static_cast<int64_t>(got) <= limit - static_cast<int64_t>(out.size()), function, name, ": at most ", limit,
            " bytes after decompression; there are more");
    out.append(chunk, 0, got);
    if (inflater.status() == Z_STREAM_END) {
      if (!is_gzip(bytes)) return out;  // bytes after the last member are padding, as for gzip(1)
      inflater.reset();
      continue;
    }
    require(inflater.status() == Z_OK && (got > 0 || !bytes.empty()), function, name, ": a whole gzip file; ",
            inflater.words());
  }
}

void inflate_exactly(std::string_view bytes, std::span<char> out, const std::string& name, std::string_view function) {
  Inflater inflater(-15, function);
  while (inflater.status() != Z_STREAM_END) {
    char beyond = 0;  // room for one byte more: too long a stream must be seen
    const bool full = out.empty();
    const size_t before = bytes.size();
    const size_t got = inflater.step(bytes, full ? std::span<char>(&beyond, 1) : out);
    require(!full || got == 0, function, name, ": the size given in its header; there is more");
    if (!full) out = out.subspan(got);
    const bool moved = got > 0 || bytes.size() < before;
    require(inflater.status() == Z_STREAM_END || (inflater.status() == Z_OK && moved), function, name,
            ": whole deflate data; ", inflater.words());
  }
  require(out.empty() && bytes.empty(), function, name, ": the sizes given in its header; the data is shorter");
}

}  // namespace heed::files
