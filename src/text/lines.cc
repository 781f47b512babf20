// Lines of text files, plain or gzip.
#include "text/line_reader.h"

#include <algorithm>

#include "heed/error.h"
#include "heed/text.h"
#include "text/utf8.h"

namespace heed::text {
namespace {

constexpr size_t kLargestBlock = size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

LineReader::LineReader(const std::filesystem::path& file, int64_t longest, std::string_view function)
    : stream_(file, function), name_(files::quoted(file)), function_(function), longest_(longest) {
  while (buffer_.size() < kByteOrderMark.size() && fill()) {
  }
  if (buffer_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  require(at_ < buffer_.size() || fill(), function_, name_, ": at least one line; the file is empty");
}

// Another block behind what is left of the buffer.
bool LineReader::fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  const size_t kept = buffer_.size();
  buffer_.resize(kept + block_);
  const int64_t got = stream_.read(std::span(buffer_).subspan(kept));
  buffer_.resize(kept + static_cast<size_t>(got));
  block_ = std::min(2 * block_, kLargestBlock);
  return got > 0;
}

bool LineReader::next(std::string_view& line) {
  size_t end = buffer_.find('\n', at_);
  while (end == std::string::npos) {
    const size_t seen = buffer_.size() - at_;
    // A "\r" here may be half of a line's end, and no byte of the line.
    const size_t least = seen - (seen > 0 && buffer_.back() == '\r' ? 1 : 0);
    require(static_cast<int64_t>(least) <= longest_, function_, name_, ", line ", lines_ + 1, ": lines of at most ",
            longest_, " bytes; found a longer one");
    if (!fill()) {
      if (buffer_.empty()) return false;
      end = buffer_.size();
      break;
    }
    end = buffer_.find('\n', seen);
  }
  line = std::string_view(buffer_).substr(at_, end - at_);
  at_ = std::min(end + 1, buffer_.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  require(static_cast<int64_t>(line.size()) <= longest_, function_, name_, ", line ", lines_ + 1, ": lines of at most ",
          longest_, " bytes; found one of ", line.size());
  ++lines_;
  if (valid_utf8_prefix(line) != line.size()) require_utf8(line, function_, name_ + ", line " + std::to_string(lines_));
  return true;
}

void LineReader::skip_to(int64_t position, int64_t lines) {
  const int64_t ahead = position - this->position();
  require(ahead >= 0, function_, name_, ": a byte from ", this->position(), " on to go on at; found ", position);
  if (ahead <= static_cast<int64_t>(buffer_.size() - at_)) {
    at_ += static_cast<size_t>(ahead);
  } else {
    buffer_.clear();
    at_ = 0;
    stream_.skip_to(position);
  }
  lines_ = lines;
}

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  LineReader reader(file);
  std::vector<std::string> lines;
  for (std::string_view line; reader.next(line);) lines.emplace_back(line);
  return lines;
}

Padded pad(std::span<const Ids> sequences, int32_t padding_id) {
  size_t longest = 0;
  for (const Ids& ids : sequences) longest = std::max(longest, ids.size());
  const int64_t count = static_cast<int64_t>(sequences.size());
  Padded padded{.ids = Tensor::empty({count, static_cast<int64_t>(longest)}, DType::i32),
                .lengths = Tensor::empty({count}, DType::i32)};
  int32_t* out = padded.ids.data<int32_t>();
  int32_t* lengths = padded.lengths.data<int32_t>();
  for (const Ids& ids : sequences) {
    require(ids.size() <= INT32_MAX, "pad", "sequences of fewer than 2^31 ids; found ", ids.size());
    out = std::copy(ids.begin(), ids.end(), out);
    out = std::fill_n(out, longest - ids.size(), padding_id);
    *lengths++ = static_cast<int32_t>(ids.size());
  }
  return padded;
}

}  // namespace heed::text
