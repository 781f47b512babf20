#include "pipelines/sentence_modules.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "models/sentence_folder.h"

namespace heed::pipelines {
namespace {

namespace fs = std::filesystem;
using models::has_sentence_modules;
using models::read_sentence_modules;
using models::SentenceModule;

constexpr const char* kModulesReader = "Encoder::load";

void normalise_rows(const Tensor& rows) {
  constexpr double kLeast = 1e-12;
  const int64_t width = rows.size(1);
  for (int64_t b = 0; b < rows.size(0); ++b) {
    float* row = rows.data<float>() + b * width;
    double squares = 0;
    for (int64_t e = 0; e < width; ++e) squares += static_cast<double>(row[e]) * static_cast<double>(row[e]);
    const double length = std::max(std::sqrt(squares), kLeast);
    for (int64_t e = 0; e < width; ++e) row[e] = static_cast<float>(static_cast<double>(row[e]) / length);
  }
}

}  // namespace

SentenceModules::SentenceModules(int64_t width) : size_(width) {}

fs::path SentenceModules::encoder_folder(const fs::path& folder) {
  return has_sentence_modules(folder) ? read_sentence_modules(folder).front().folder : folder;
}

std::vector<fs::path> SentenceModules::folders(const fs::path& folder) {
  if (!has_sentence_modules(folder)) return {folder};
  std::vector<fs::path> result;
  for (const SentenceModule& entry : read_sentence_modules(folder)) result.push_back(entry.folder);
  return result;
}

SentenceModules SentenceModules::load(const fs::path& folder, int64_t width) {
  SentenceModules result(width);
  if (!has_sentence_modules(folder)) return result;
  const std::vector<SentenceModule> entries = read_sentence_modules(folder);
  models::SentencePooling pooling = models::read_sentence_pooling(entries[1].folder, width);
  result.poolings_ = std::move(pooling.poolings);
  result.pools_prompts_ = pooling.pools_prompts;
  result.size_ = width * std::ssize(result.poolings_);
  for (size_t i = 2; i < entries.size(); ++i) {
    require(entries[i].kind != "Pooling", kModulesReader, (folder / "modules.json").string(), ", module ", i + 1,
            ": key \"type\": one Pooling; found a second");
    if (entries[i].kind == "Normalize") {
      result.modules_.emplace_back(Normalize{});  // has no settings; its folder may be missing
    } else {
      models::SentenceDense dense = models::read_sentence_dense(entries[i].folder, result.size_);
      result.size_ = dense.size();
      result.modules_.emplace_back(std::move(dense));
    }
  }
  return result;
}

Tensor SentenceModules::operator()(const Tensor& states, const Tensor& lengths, int64_t skipped) const {
  const NoGradScope no_grad;
  Tensor rows = models::pooled_states(Value(states), lengths, poolings_, skipped).data();
  for (const Module& module : modules_) {
    if (const auto* dense = std::get_if<models::SentenceDense>(&module); dense != nullptr) {
      rows = (*dense)(Value(rows)).data().contiguous();
    } else {
      normalise_rows(rows);
    }
  }
  return rows;
}

}  // namespace heed::pipelines
