// Weights of chosen layers and heads, and the offline page.
#include <algorithm>

#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/words.h"
#include "pipelines/recording.h"
#include "serve/binary.h"
#include "serve/heads.h"
#include "serve/views.h"

namespace heed::serve {
namespace {

using nlohmann::json;

constexpr int64_t kMostWeights = 16'000'000;  // in one answer: 32 MB of f16

struct PartOfRecord {
  const char* name;
  inspect::Part part;
  const std::vector<inspect::Map>& maps;
};

std::vector<PartOfRecord> parts_of(const inspect::Record& record) {
  std::vector<PartOfRecord> out;
  for (const PartOfRecord& one : {PartOfRecord{"encoder", inspect::Part::encoder, record.encoder},
                                  PartOfRecord{"decoder", inspect::Part::decoder, record.decoder},
                                  PartOfRecord{"cross", inspect::Part::cross, record.cross}})
    if (!one.maps.empty()) out.push_back(one);
  return out;
}

void require_few_weights(const Reading& reading) {
  const models::Config& config = reading.model->config();
  const auto source = static_cast<int64_t>(reading.source.size()), target = static_cast<int64_t>(reading.target.size());
  int64_t weights = reading.model->encodes() ? config.encoder_layers * source * source : 0;
  if (reading.model->decodes()) weights += config.decoder_layers * target * (target + source);
  weights *= config.heads;
  if (weights > kMostWeights)
    throw Refused(413, "expected a text whose weights fit into one answer, " + std::to_string(kMostWeights) +
                           " numbers; found " + std::to_string(weights) + " (map has a part of one head)");
}

std::vector<int64_t> all_or(const Arguments& request, const char* name, int64_t count) {
  std::vector<int64_t> out;
  if (!request.has(name)) {
    for (int64_t i = 0; i < count; ++i) out.push_back(i);
    return out;
  }
  out = request.integers(name, 0, count - 1);
  std::vector<int64_t> sorted = out;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    refuse(name, "each number once", request.at(name));
  return out;
}

}  // namespace

json words_of(const std::vector<std::string>& tokens) {
  json out = json::array();
  for (const std::string& token : tokens) out.push_back(inspect::is_word(token) ? 1 : 0);
  return out;
}

inspect::Record record_of(const Reading& reading, nn::Probe* probe) {
  require_few_weights(reading);
  const Served& model = *reading.model;
  inspect::Record record;
  record.title = model.name;
  record.source_tokens = source_pieces(model, reading.source);
  if (model.decodes()) record.target_tokens = pieces(model, reading.target);
  inspect::Recorder recorder;
  const Tensor logits = logits_of(reading, probe, &recorder);
  recorder.move_into(record);
  if (model.decodes()) {
    Ids output(reading.target.begin() + 1, reading.target.end());
    if (!model.translates()) output.clear();
    for (auto i = static_cast<int64_t>(output.size()); i < logits.size(0); ++i)
      output.push_back(row_of(logits, i).likeliest(model));
    record.output_tokens = pieces(model, output);
    const text::SpecialIds special = model.target->special();
    Ids said(reading.target.begin() + (model.translates() ? 1 : 0), reading.target.end());
    if (!said.empty() && said.back() == special.end) said.pop_back();
    (model.translates() ? record.output : record.source) = text_of(*model.target, std::move(said));
  }
  if (model.encodes()) record.source = text_of(*model.source, reading.source);
  return record;
}

Reply attention(const Reading& reading, const Arguments& request) {
  Changes changes(changes_of(reading, request));
  const inspect::Record record = record_of(reading, &changes);
  const std::string dtype = request.has("dtype") ? request.text("dtype") : "f16";
  if (dtype != "f16" && dtype != "f32") refuse("dtype", "f16 or f32", request.at("dtype"));
  const bool everything = !request.has("layers") && !request.has("heads");
  std::vector<std::string> wanted;
  if (request.has("parts")) {
    if (!request.at("parts").is_array()) refuse("parts", "a list of encoder, decoder and cross", request.at("parts"));
    if (request.at("parts").size() > 3) refuse("parts", "each part once", request.at("parts"));
    for (const json& part : request.at("parts")) {
      const json one = {{"part", part}};
      wanted.push_back(part_of(*reading.model, Arguments(one, {"part"})));
    }
  }
  Binary numbers(dtype == "f16" ? DType::f16 : DType::f32);
  json maps = json::array(), telling = json::object(), names = json::object();
  for (const PartOfRecord& part : parts_of(record)) {
    if (request.has("parts") && std::find(wanted.begin(), wanted.end(), part.name) == wanted.end()) continue;
    const Ids& rows = part.part == inspect::Part::encoder ? reading.source : reading.target;
    for (const int64_t layer : all_or(request, "layers", static_cast<int64_t>(part.maps.size()))) {
      const inspect::Map& map = part.maps[static_cast<size_t>(layer)];
      const std::vector<int64_t> heads = all_or(request, "heads", map.weights.size(0));
      json one = {{"part", part.name},
                  {"layer", layer},
                  {"path", map.path},
                  {"heads", heads},
                  {"rows", map.weights.size(1)},
                  {"columns", map.weights.size(2)}};
      json named = json::array();
      int64_t offset = -1;
      for (const int64_t head : heads) {
        const Tensor weights = map.weights.select(0, head).contiguous();
        const int64_t at = numbers.add(weights);
        if (offset < 0) offset = at;
        const HeadName name = name_head(weights, part.name, rows);
        named.push_back({{"name", name.name}, {"measure", name.measure}});
      }
      one["offset"] = std::max<int64_t>(offset, 0);
      maps.push_back(std::move(one));
      if (everything) names[part.name].push_back(std::move(named));
    }
    if (everything) telling[part.name] = inspect::telling_scores(record, part.part);
  }
  json header = {{"maps", maps}};
  if (everything) header.update({{"telling", telling}, {"names", names}});
  return numbers.with_header(header);
}

Reply page(const Reading& reading, const Arguments& request) {
  Changes changes(changes_of(reading, request));
  inspect::Record record = record_of(reading, &changes);
  for (const char* const typed : {"text", "heading"})
    if (request.has(typed) && reading.model->encodes()) record.source = request.text(typed);
  const Translator::Languages& usual = reading.model->languages;
  const std::string from = reading.spoken.source.empty() ? usual.usual_source : reading.spoken.source;
  const std::string to = reading.spoken.target.empty() ? usual.usual_target : reading.spoken.target;
  if (!from.empty()) record.title += ", from " + from;
  if (!to.empty()) record.title += (from.empty() ? ", to " : " to ") + to;
  return {.type = "text/html; charset=utf-8", .body = inspect::to_html(record)};
}

json tokenize(const Served& model, const Arguments& request) {
  const std::string side = request.has("side") ? request.text("side") : model.encodes() ? "source" : "target";
  if (side != "source" && side != "target") refuse("side", "source or target", request.at("side"));
  if (side == "target" && !model.decodes())
    refuse("side", "source, as an encoder-only model has no target", request.at("side"));
  const bool source = side == "source";
  const Ids ids = ids_of_text(model, source ? text::Side::source : text::Side::target, request.text("text"),
                              spoken_of(model, request));
  const std::vector<std::string> tokens = source ? source_pieces(model, ids) : pieces(model, ids);
  return {{"ids", ids}, {"tokens", tokens}, {"words", words_of(tokens)}};
}

int64_t Binary::add(const Tensor& numbers) {
  const Tensor converted = numbers.to(dtype_).contiguous();
  const int64_t before = count_;
  bytes_.append(static_cast<const char*>(converted.raw()), static_cast<size_t>(converted.nbytes()));
  count_ += converted.numel();
  return before;
}

Reply Binary::with_header(const json& header) const {
  std::string text = header.dump();
  text.append((4 - text.size() % 4) % 4, ' ');
  std::string body;
  body.reserve(4 + text.size() + bytes_.size());
  for (int shift = 0; shift < 32; shift += 8) body += static_cast<char>((text.size() >> shift) & 255);
  body += text;
  body += bytes_;
  return {.type = "application/octet-stream", .body = std::move(body)};
}

}  // namespace heed::serve
