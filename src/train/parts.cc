#include "train/parts.h"

#include <algorithm>

namespace heed::train {

namespace {

constexpr int64_t kMostParts = 16;  // of a rank

}  // namespace

Parts::Parts(const FlatParameters& flat, int ranks) : sizes_(static_cast<size_t>(ranks)) {
  // No part is smaller than a message needs to be.
  const int64_t each = std::clamp<int64_t>(flat.size() / (ranks * FlatParameters::kMessage), 1, kMostParts);
  const std::vector<int64_t> cuts = flat.cuts(ranks == 1 ? 1 : each * ranks);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const auto owner = static_cast<int>(i % static_cast<size_t>(ranks));
    int64_t& size = sizes_[static_cast<size_t>(owner)];
    all_.push_back({.owner = owner, .begin = cuts[i], .end = cuts[i + 1], .local = size});
    size += cuts[i + 1] - cuts[i];
  }
}

std::vector<Part> Parts::of(int rank) const {
  std::vector<Part> found;
  for (const Part& part : all_) {
    if (part.owner == rank) found.push_back(part);
  }
  return found;
}

}  // namespace heed::train
