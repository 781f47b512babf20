// Appending to log.jsonl.
#include "train/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/files.h"
#include "heed/error.h"

namespace heed::train {

namespace {

constexpr int64_t kLongestLog = int64_t{1} << 30;

std::string lines_up_to(const std::filesystem::path& file, int64_t update) {
  if (update < 0 || !std::filesystem::exists(file)) return {};
  const std::string all = files::read_all(file, kLongestLog, "train");
  std::string kept;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = all.find('\n', begin);
    if (end == std::string::npos) break;  // half a line
    const std::string_view line = std::string_view(all).substr(begin, end + 1 - begin);
    const io::Json parsed = io::parse_json(line).value;
    if (parsed.is_object() && parsed.value("update", int64_t{0}) <= update && parsed.value("type", "") != "end") {
      kept += line;
    }
    begin = end + 1;
  }
  return kept;
}

}  // namespace

Log::Log(std::filesystem::path file, int64_t continue_from) : file_(std::move(file)) {
  files::write_atomically(file_, lines_up_to(file_, continue_from), "train");
  descriptor_ = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  require(descriptor_ >= 0, "train", files::quoted(file_), ": a log that can be written; ",
          std::generic_category().message(errno));
}

Log::~Log() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Log::write(const io::Json& line) {
  const std::string text = io::json_text(line) + "\n";
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(descriptor_, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    require(count > 0, "train", files::quoted(file_), ": a log that can be written; ",
            std::generic_category().message(errno));
    done += static_cast<size_t>(count);
  }
}

}  // namespace heed::train
