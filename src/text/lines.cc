// Lines of text files, plain or gzip.
#include "base/files.h"
#include "heed/error.h"
#include "heed/text.h"

namespace heed::text {
namespace {

constexpr int64_t kMaxText = int64_t{1} << 36;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  std::string contents = files::read_all(file, kMaxText, "read_lines");
  const std::string name = files::quoted(file);
  if (files::is_gzip(contents)) {
    // Text seldom shrinks below a tenth; a thousandth is where "zip bombs" begin.
    const int64_t limit = (int64_t{1} << 28) + 200 * static_cast<int64_t>(contents.size());
    contents = files::gunzip(contents, limit, name, "read_lines");
  }
  std::string_view rest = contents;
  if (rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
  require(!rest.empty(), "read_lines", name, ": at least one line; the file is empty");

  std::vector<std::string> lines;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t valid = valid_utf8_prefix(line);
    require(valid == line.size(), "read_lines", name, ", line ", lines.size() + 1, ": UTF-8; byte ", valid + 1,
            " of the line is not");
    lines.emplace_back(line);
  }
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
