// Laying parameters out in one row, and cutting it.
#include "train/flat_parameters.h"

#include <algorithm>

#include "heed/ops.h"

namespace heed::train {

namespace {

constexpr int64_t kAlignment = 16;  // numbers

}  // namespace

FlatParameters::FlatParameters(const NamedParameters& parameters) : parameters_(parameters) {
  for (const auto& [name, parameter] : parameters_) {
    begins_.push_back(size_);
    size_ += (parameter.data().numel() + kAlignment - 1) / kAlignment * kAlignment;
  }
  weights_ = Tensor::zeros({size_});
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor place = view(weights_, i);
    place.copy_from(parameters_[i].second.data());
    parameters_[i].second.set_data(place);
  }
}

Tensor FlatParameters::view(const Tensor& row, size_t i) const {
  return row.slice(0, begin_of(i), end_of(i)).reshape(parameters_[i].second.shape());
}

std::vector<FlatParameters::Slice> FlatParameters::slices(int64_t begin, int64_t end) const {
  std::vector<Slice> found;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const int64_t from = std::max(begin, begin_of(i)), to = std::min(end, end_of(i));
    if (from < to) found.push_back({i, from, to});
  }
  return found;
}

std::vector<int64_t> FlatParameters::cuts(int64_t parts) const {
  const int64_t block = ops::norm_block();
  std::vector<int64_t> cuts = {0};
  for (int64_t p = 1; p < parts; ++p) {
    const int64_t wanted = size_ * p / parts;
    // The last parameter that begins at or before the wanted place, and the block of it that is nearest.
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), wanted);
    const auto i = static_cast<size_t>(after - begins_.begin()) - 1;
    const int64_t cut = begins_[i] + (wanted - begins_[i] + block / 2) / block * block;
    const int64_t next = i + 1 < begins_.size() ? begins_[i + 1] : size_;
    cuts.push_back(std::max(cuts.back(), cut < end_of(i) ? cut : next));
  }
  cuts.push_back(size_);
  return cuts;
}

std::vector<FlatParameters::Range> FlatParameters::messages(int64_t begin, int64_t end) {
  std::vector<Range> pieces;
  for (int64_t at = begin; at < end; at += kMessage) pieces.push_back({at, std::min(end, at + kMessage)});
  return pieces;
}

}  // namespace heed::train
