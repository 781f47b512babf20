// Recorder: keeps the weights that pass by, and sorts them into a Record.
#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include "heed/attention.h"
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

// Calls f(first, last) for each group of neighbouring tokens.
template <class F>
std::vector<std::string> for_groups(const std::vector<std::string>& tokens, int64_t most, F&& f) {
  const int64_t count = std::ssize(tokens), groups = std::min(most, count);
  std::vector<std::string> result;
  for (int64_t g = 0; g < groups; ++g)
    result.push_back(
        f(tokens[static_cast<size_t>(g * count / groups)], tokens[static_cast<size_t>((g + 1) * count / groups - 1)]));
  return result;
}

std::vector<std::string> names_of_groups(const std::vector<std::string>& tokens, int64_t most) {
  return for_groups(tokens, most, [](const std::string& first, const std::string& last) {
    return &first == &last ? first : first + " … " + last;
  });
}

std::vector<std::string> last_of_groups(const std::vector<std::string>& tokens, int64_t most) {
  return for_groups(tokens, most, [](const std::string& /*first*/, const std::string& last) { return last; });
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

PooledRecorder::PooledRecorder(int64_t most_groups) : most_groups_(most_groups) {
  require(most_groups >= 1, "PooledRecorder", "at least 1 group; found ", most_groups);
}

void PooledRecorder::on_attention(std::string_view path, const Tensor& query, const Tensor& key, const Tensor& value,
                                  AttentionOptions& options) {
  const int64_t keys = key.size(2), rows = std::min(most_groups_, query.size(2)),
                columns = std::min(most_groups_, keys);
  AttentionOptions taps = options;
  taps.want = {.taps = {.map = {.rows = rows, .columns = columns}}};
  const Tensor map = attention(query, key, value, taps).taps.map.contiguous();  // (B, H, rows, columns), means
  float* const cells = map.data<float>();
  for (int64_t i = 0; i < map.numel(); ++i) {
    const int64_t group = i % columns;
    cells[i] *= static_cast<float>((group + 1) * keys / columns - group * keys / columns);
  }
  recorder_.on_attention(path, map);
}

void PooledRecorder::move_into(Record& record) {
  recorder_.move_into(record);
  if (!record.output_tokens.empty()) record.output_tokens = last_of_groups(record.output_tokens, most_groups_);
  for (const auto& [tokens, words] : {std::pair{&record.source_tokens, &record.source_words},
                                      std::pair{&record.target_tokens, &record.target_words}}) {
    *tokens = names_of_groups(*tokens, most_groups_);
    words->texts = *tokens;
    words->of_token.resize(tokens->size());
    std::iota(words->of_token.begin(), words->of_token.end(), 0);
  }
}

}  // namespace heed::inspect
