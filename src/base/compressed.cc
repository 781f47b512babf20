// gzip and deflate, through zlib, with a limit on what may come out.
#include <zlib.h>

#include <algorithm>

#include "base/files.h"
#include "heed/error.h"

namespace heed::files {
namespace {

constexpr size_t kOnce = size_t{1} << 30;  // zlib counts in 32 bits

}  // namespace

// (Not in an unnamed namespace: ByteStream::Gzip has one.)
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

bool is_gzip(std::string_view bytes) {
  return bytes.size() >= 2 && static_cast<uint8_t>(bytes[0]) == 0x1f && static_cast<uint8_t>(bytes[1]) == 0x8b;
}

struct ByteStream::Gzip {
  explicit Gzip(std::string_view function) : inflater(15 + 16, function), input(size_t{1} << 18, '\0') {}
  Inflater inflater;
  std::string input;
  std::string_view rest;  // of what was read into `input`
  int64_t taken = 0;      // bytes of the file that were read into `input`
  bool ended = false;
};

ByteStream::ByteStream(const Path& file, std::string_view function) : file_(file, function) {
  char start[2] = {};
  if (file_.size() >= 2) file_.read_at(0, start, 2);
  if (is_gzip({start, 2})) gzip_ = std::make_unique<Gzip>(function);
}

ByteStream::~ByteStream() = default;

int64_t ByteStream::read(std::span<char> out) {
  int64_t count = 0;
  if (gzip_) {
    count = read_gzip(out);
  } else {
    count = std::min<int64_t>(static_cast<int64_t>(out.size()), file_.size() - position_);
    file_.read_at(position_, out.data(), count);
  }
  position_ += count;
  return count;
}

int64_t ByteStream::read_gzip(std::span<char> out) {
  // Text seldom shrinks below a tenth; a thousandth is where "zip bombs" begin.
  const int64_t limit = (int64_t{1} << 28) + 200 * file_.size();
  Gzip& gzip = *gzip_;
  size_t count = 0;
  const auto fill = [&] {
    if (!gzip.rest.empty() || gzip.taken == file_.size()) return;
    const int64_t bytes = std::min<int64_t>(static_cast<int64_t>(gzip.input.size()), file_.size() - gzip.taken);
    file_.read_at(gzip.taken, gzip.input.data(), bytes);
    gzip.taken += bytes;
    gzip.rest = std::string_view(gzip.input).substr(0, static_cast<size_t>(bytes));
  };
  while (!gzip.ended && count < out.size()) {
    fill();
    const size_t got = gzip.inflater.step(gzip.rest, out.subspan(count));
    count += got;
    if (position_ + static_cast<int64_t>(count) > limit) {
      file_.fail("at most " + std::to_string(limit) + " bytes after decompression; there are more");
    }
    if (gzip.inflater.status() == Z_STREAM_END) {
      if (gzip.rest.size() == 1) {  // the two bytes that begin another member lie in two blocks
        const char first = gzip.rest[0];
        char second = 0;
        if (gzip.taken < file_.size()) file_.read_at(gzip.taken, &second, 1);
        const char both[2] = {first, second};
        gzip.ended = gzip.taken == file_.size() || !is_gzip({both, 2});
      } else {
        fill();
        gzip.ended = !is_gzip(gzip.rest);  // bytes after the last member are padding, as for gzip(1)
      }
      gzip.inflater.reset();
      continue;
    }
    const bool moved = got > 0 || !gzip.rest.empty() || gzip.taken < file_.size();
    if (gzip.inflater.status() != Z_OK || !moved) file_.fail("a whole gzip file; " + gzip.inflater.words());
  }
  return static_cast<int64_t>(count);
}

void ByteStream::skip_to(int64_t position) {
  if (position < position_) {
    file_.fail("a byte from " + std::to_string(position_) + " on to go on at; found " + std::to_string(position));
  }
  if (!gzip_) {
    if (position > file_.size()) file_.fail("byte " + std::to_string(position) + " of the text; it is shorter");
    position_ = position;
    return;
  }
  std::string unused(size_t{1} << 18, '\0');
  while (position_ < position) {
    const auto wanted = std::min<int64_t>(position - position_, static_cast<int64_t>(unused.size()));
    if (read(std::span(unused).first(static_cast<size_t>(wanted))) == 0) {
      file_.fail("byte " + std::to_string(position) + " of the text; it is shorter");
    }
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
