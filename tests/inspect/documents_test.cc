// The patterns that docs/reading-attention.md shows are what to_svg() draws. HEED_UPDATE_PICTURES=1 writes them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "heed/inspect.h"

namespace heed::inspect {
namespace {

using Weight = float (*)(int64_t row, int64_t column);

struct Pattern {
  const char* name;
  const char* title;
  std::vector<std::string> rows, columns;
  Weight weight;  // before rows are made to sum to 1
};

const std::vector<std::string> kEnglish = {"The", "cat", "sat", "on", "the", "mat", "."};
const std::vector<std::string> kGerman = {"Auf", "der", "Matte", "saß", "die", "Katze", "."};

const std::vector<Pattern> kPatterns = {{"previous", "previous token", kEnglish, kEnglish,
                                         [](int64_t i, int64_t j) {
                                           return j > i ? 0.0f : j == std::max<int64_t>(0, i - 1) ? 12.0f : 1.0f;
                                         }},
                                        {"first", "a sink", kEnglish, kEnglish,
                                         [](int64_t i, int64_t j) {
                                           return j > i ? 0.0f : j == 0 ? 20.0f : i - j < 3 ? 1.0f : 0.3f;
                                         }},
                                        {"even", "even", kEnglish, kEnglish, [](int64_t, int64_t) { return 1.0f; }},
                                        {"alignment", "alignment", kGerman, kEnglish, [](int64_t i, int64_t j) {
                                           constexpr int64_t kWord[] = {3, 4, 5, 2, 0, 1, 6};
                                           return j == kWord[i] ? 30.0f : std::abs(j - kWord[i]) == 1 ? 2.0f : 0.5f;
                                         }}};

TEST(Documents, ThePatternsAreAsDrawn) {
  for (const Pattern& pattern : kPatterns) {
    const auto rows = static_cast<int64_t>(pattern.rows.size()), columns = static_cast<int64_t>(pattern.columns.size());
    const Tensor weights = Tensor::zeros({rows, columns});
    for (int64_t i = 0; i < rows; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < columns; ++j) sum += pattern.weight(i, j);
      for (int64_t j = 0; j < columns; ++j) weights.data<float>()[i * columns + j] = pattern.weight(i, j) / sum;
    }
    const std::string svg = to_svg(weights, pattern.rows, pattern.columns, pattern.title);
    const std::string file = std::string(HEED_SOURCE_DIR) + "/docs/pattern-" + pattern.name + ".svg";
    if (std::getenv("HEED_UPDATE_PICTURES") != nullptr) std::ofstream(file, std::ios::binary) << svg;
    std::ifstream in(file, std::ios::binary);
    EXPECT_EQ(std::string((std::istreambuf_iterator<char>(in)), {}), svg) << file;
  }
}

}  // namespace
}  // namespace heed::inspect
