// Records and heads as JSON. What it escapes makes it safe inside <script> too.
#include <algorithm>
#include <utility>

#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/weights.h"
#include "inspect/words.h"

namespace heed::inspect {
namespace {

// A page larger than this opens in no browser.

struct Side {
  const std::vector<std::string>& rows;
  const std::vector<std::string>& columns;
};

void append_maps(std::string& out, const std::vector<Map>& maps, const Side& side) {
  out += '[';
  for (size_t layer = 0; layer < maps.size(); ++layer) {
    const Map& map = maps[layer];
    require(map.weights.defined() && map.weights.rank() == 3, "inspect::to_json", "weights (H, L, S) of \"", map.path,
            "\"; found ", map.weights.defined() ? to_string(map.weights.shape()) : "an undefined tensor");
    out += layer > 0 ? ",\n" : "\n";
    out += "{\"path\":\"" + escape_json(map.path) + "\",\"weights\":[";
    for (int64_t head = 0; head < map.weights.size(0); ++head) {
      if (head > 0) out += ",\n";
      append_json_rows(out, check_head("inspect::to_json", map.weights.select(0, head), side.rows, side.columns));
    }
    out += "]}";
  }
  out += ']';
}

// Numbers where no tokens are given: as many as the first of these maps has queries (axis 1) or keys (axis 2).
std::vector<std::string> tokens_or_numbers(const std::vector<std::string>& tokens,
                                           std::initializer_list<std::pair<const std::vector<Map>*, int>> places) {
  if (!tokens.empty()) return tokens;
  for (const auto& [maps, axis] : places) {
    if (maps->empty() || maps->front().weights.rank() != 3) continue;
    std::vector<std::string> out;
    for (int64_t i = 0; i < maps->front().weights.size(axis); ++i) out.push_back(std::to_string(i));
    return out;
  }
  return {};
}

// [1,0]: which tokens are words.
void append_words(std::string& out, const std::vector<std::string>& tokens) {
  out += '[';
  for (size_t i = 0; i < tokens.size(); ++i) out += std::string(i > 0 ? "," : "") + (is_word(tokens[i]) ? '1' : '0');
  out += ']';
}

// [[0.25,0.5],...]: a layer each, in it the heads and the mean over them.
void append_scores(std::string& out, const std::vector<std::vector<double>>& scores) {
  out += '[';
  for (size_t layer = 0; layer < scores.size(); ++layer) {
    out += layer > 0 ? ",[" : "[";
    for (size_t head = 0; head < scores[layer].size(); ++head) {
      if (head > 0) out += ',';
      append_weight(out, static_cast<float>(scores[layer][head]));
    }
    out += ']';
  }
  out += ']';
}

}  // namespace

std::string to_json(const Record& record) {
  int64_t weights = 0;
  for (const auto* maps : {&record.encoder, &record.decoder, &record.cross, &record.arrays})
    for (const Map& map : *maps) weights += map.weights.defined() ? map.weights.numel() : 0;
  require(weights > 0, "inspect::to_json", "a record with attention weights in it; found none");
  require(weights <= kMostWeights, "inspect::to_json", "at most ", kMostWeights,
          " weights in one page or in JSON; found ", weights, ": a shorter text, or one head");
  const auto source =
      tokens_or_numbers(record.source_tokens, {{&record.encoder, 1}, {&record.cross, 2}, {&record.arrays, 2}});
  const auto target =
      tokens_or_numbers(record.target_tokens, {{&record.decoder, 1}, {&record.cross, 1}, {&record.arrays, 1}});
  require(record.output_tokens.empty() || record.output_tokens.size() == target.size(), "inspect::to_json",
          "an output token for each of the ", target.size(), " target tokens; found ", record.output_tokens.size());
  std::string out;
  out.reserve(static_cast<size_t>(weights) * 7 + 4096);
  out += "{\"title\":\"" + escape_json(record.title) + "\",\n\"source\":\"" + escape_json(record.source) +
         "\",\n\"output\":\"" + escape_json(record.output) + "\",\n\"source_tokens\":";
  append_json_strings(out, source);
  out += ",\n\"target_tokens\":";
  append_json_strings(out, target);
  out += ",\n\"output_tokens\":";
  append_json_strings(out, record.output_tokens);
  out += ",\n\"encoder\":";
  append_maps(out, record.encoder, {source, source});
  out += ",\n\"decoder\":";
  append_maps(out, record.decoder, {target, target});
  out += ",\n\"cross\":";
  append_maps(out, record.cross, {target, source});
  out += ",\n\"arrays\":";
  append_maps(out, record.arrays, {target, source});
  out += ",\n\"words\":{\"source\":";
  append_words(out, source);
  out += ",\"target\":";
  append_words(out, target);
  out += ",\"output\":";
  append_words(out, record.output_tokens);
  out += "},\n\"telling\":{";
  for (const auto& [name, part] : {std::pair{"encoder", Part::encoder}, std::pair{"decoder", Part::decoder},
                                   std::pair{"cross", Part::cross}, std::pair{"arrays", Part::arrays}}) {
    out += std::string(part == Part::encoder ? "\"" : ",\"") + name + "\":";
    append_scores(out, telling_scores(record, part));
  }
  out += "}}\n";
  return out;
}

std::string to_json(const Tensor& weights, const std::vector<std::string>& rows,
                    const std::vector<std::string>& columns, const std::string& title) {
  const Head head = check_head("inspect::to_json", weights, rows, columns);
  std::string out = "{\"title\":\"" + escape_json(title) + "\",\n\"rows\":";
  append_json_strings(out, head.rows);
  out += ",\n\"columns\":";
  append_json_strings(out, head.columns);
  out += ",\n\"weights\":";
  append_json_rows(out, head);
  out += "}\n";
  return out;
}

}  // namespace heed::inspect
