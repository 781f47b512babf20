#include "fuzz/target.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "heed/text.h"

namespace heed::fuzz {

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

void write_input(const Target& target, const Path& folder, std::string_view contents) {
  const Path file = folder / target.file;
  // The calls of the system, because a fuzzer writes a file each time.
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  const bool written = descriptor >= 0 && ::ftruncate(descriptor, 0) == 0 &&
                       ::write(descriptor, contents.data(), contents.size()) == static_cast<ssize_t>(contents.size());
  if (descriptor >= 0) ::close(descriptor);
  if (!written) throw std::runtime_error("cannot write " + file.string());
}

bool names_the_file(const Target& target, std::string_view message) {
  return message.starts_with('[') &&
         message.find(target.named != nullptr ? target.named : target.file) != std::string_view::npos &&
         std::ranges::none_of(message, [](char c) { return static_cast<unsigned char>(c) < 0x20; }) &&
         text::valid_utf8_prefix(message) == message.size();
}

}  // namespace heed::fuzz
