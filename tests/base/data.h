// Data that others made: test_data() is in this project, shared_data() may not be. tests/data/README.md describes both.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace heed::test {

// A file or folder of tests/data.
inline std::filesystem::path test_data(std::string_view name) {
  const auto path = std::filesystem::path(HEED_SOURCE_DIR) / "tests/data" / name;
  if (std::filesystem::exists(path)) return path;
  throw std::runtime_error(path.string() +
                           " is missing: it is part of the repository, and a source distribution of the "
                           "Python package leaves it out");
}

// A file or folder whose licence forbids shipping it. It is looked for in the folder data/ of HEED_SHARED, or of
// ../shared beside the source tree; it need not exist (HEED_NEED_SHARED).
inline std::filesystem::path shared_data(std::string_view name) {
  const char* given = std::getenv("HEED_SHARED");
  return (given != nullptr ? std::filesystem::path(given) : std::filesystem::path(HEED_SOURCE_DIR) / "../shared") /
         "data" / name;
}

inline std::string why_missing(const std::filesystem::path& path) {
  const std::string text = path.lexically_normal().string();
  const char* const why = text.find("llama2") != std::string::npos ? "the Llama 2 vocabulary falls under Meta's licence"
                                                                   : "Multi30k is for research and education only";
  return text + " is not there: " + why +
         ", so it is not part of this project. tests/data/README.md says where to get it.";
}

}  // namespace heed::test

// Skips the test where a path of shared_data() does not exist.
#define HEED_NEED_SHARED(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << ::heed::test::why_missing(path)
