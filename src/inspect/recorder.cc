// Recorder: keeps the weights that pass by, and sorts them into a Record.
#include <algorithm>
#include <cctype>

#include "heed/error.h"
#include "heed/inspect.h"

namespace heed::inspect {
namespace {

// The numbers in a path, in order: "decoder.layers.10.self_attention" -> {10}, so that layer 10 follows layer 9.
std::vector<int64_t> numbers_in(std::string_view path) {
  std::vector<int64_t> out;
  bool inside = false;
  for (char c : path) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
      inside = false;
      continue;
    }
    if (!inside) out.push_back(0);
    inside = true;
    out.back() = std::min<int64_t>(out.back() * 10 + (c - '0'), 1'000'000'000);
  }
  return out;
}

}  // namespace

void Recorder::on_attention(std::string_view path, const Tensor& weights) {
  require(weights.rank() == 4 && weights.size(0) > 0, "Recorder::on_attention",
          "weights (B, H, L, S) with B > 0; found ", weights.shape());
  Tensor kept = weights.select(0, 0).to(DType::f32).clone();
  const auto known = std::find_if(maps_.begin(), maps_.end(), [&](const Map& map) { return map.path == path; });
  if (known != maps_.end()) {
    known->weights = std::move(kept);
  } else {
    maps_.push_back({.path = std::string(path), .weights = std::move(kept)});
  }
}

void Recorder::move_into(Record& record) {
  std::stable_sort(maps_.begin(), maps_.end(),
                   [](const Map& a, const Map& b) { return numbers_in(a.path) < numbers_in(b.path); });
  for (Map& map : maps_) {
    const bool encodes = map.path.find("encoder") != std::string::npos ||
                         (map.path.find("decoder") == std::string::npos && record.target_tokens.empty());
    const bool crosses = map.path.find("cross") != std::string::npos;
    (crosses ? record.cross : encodes ? record.encoder : record.decoder).push_back(std::move(map));
  }
  maps_.clear();
}

}  // namespace heed::inspect
