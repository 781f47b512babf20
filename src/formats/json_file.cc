#include "formats/json_file.h"

#include <system_error>

#include "heed/error.h"
#include "heed/io.h"

namespace heed::io {

Json read_json(const std::filesystem::path& file, const char* function) {
  constexpr int64_t kLimit = int64_t{1} << 20;
  ParsedJson parsed = parse_json(read_file(file, kLimit));
  require(parsed.problem.empty(), function, file.string(), ": ", parsed.problem);
  return std::move(parsed.value);
}

std::optional<JsonFile> read_json_if_there(const std::filesystem::path& folder,
                                           std::initializer_list<const char*> names, const char* function) {
  for (const char* const name : names) {
    std::error_code ignored;
    if (std::filesystem::exists(folder / name, ignored)) {
      return JsonFile{.file = folder / name, .value = read_json(folder / name, function)};
    }
  }
  return std::nullopt;
}

}  // namespace heed::io
