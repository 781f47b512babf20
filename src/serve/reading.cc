#include "serve/reading.h"

#include <optional>

#include "heed/error.h"
#include "pipelines/encoding.h"
#include "serve/service.h"
#include "serve/stop.h"

namespace heed::serve {
namespace {

Ids checked_ids(const Arguments& object, std::string_view name, int64_t vocabulary, int64_t longest) {
  const std::vector<int64_t> list = object.integers(name, 0, vocabulary - 1);
  if (static_cast<int64_t>(list.size()) > longest)
    throw Refused(413, object.full_name(name) + ": expected at most the " + std::to_string(longest) +
                           " tokens that the model reads; found " + std::to_string(list.size()));
  return {list.begin(), list.end()};
}

// What an encoder-only model reads of a text, masks too; nothing where only the tokens around a text would be left.
Ids ids_of_encoder(const Served& model, std::string_view text) {
  const TextOptions options{.name = [](int64_t) { return "text"; }};
  try {
    text::Tokens tokens = model.reader->show(text, options, "serve");
    const bool empty = std::ranges::find(tokens.special, 0) == tokens.special.end();
    return empty ? Ids() : std::move(tokens.ids);
  } catch (const Error& error) {  // the only text that it refuses is one that is too long
    throw Refused(413, error.what());
  }
}

// Goes on from layer to layer as long as somebody waits.
struct Asking : nn::Probe {
  void on_attention(std::string_view, const Tensor&, const Tensor&, const Tensor&, AttentionOptions&) override {
    go_on();
  }
};

void require_fits(size_t count, int64_t longest) {
  if (static_cast<int64_t>(count) <= longest) return;
  throw Refused(413, "text: expected at most the " + std::to_string(longest) + " tokens that the model reads; found " +
                         std::to_string(count));
}

// The language that this member names, once `check` has let it pass.
std::string language_of(const Served& model, const Arguments& request, std::string_view member,
                        const std::vector<std::string>& known, void (*check)(const Translator&, const std::string&)) {
  if (!request.has(member)) return {};
  std::string name = request.text(member);
  if (name.empty()) return name;
  if (!model.translates()) refuse(member, "none, because this model does not translate", request.at(member));
  try {
    check(*model.translator, name);
    return name;
  } catch (const Error& error) {
    if (std::ranges::find(known, name) != known.end()) throw Error(std::string(member) + ": " + error.what());
    std::string all;
    for (const std::string& one : known) all += (all.empty() ? "one of " : " ") + one;
    refuse(member, all.empty() ? "none, because this model names no languages" : all, request.at(member));
  }
}

}  // namespace

Spoken spoken_of(const Served& model, const Arguments& request) {
  const Translator::Languages& all = model.languages;
  Spoken spoken;
  spoken.source = language_of(model, request, "source_language", all.source,
                              [](const Translator& translator, const std::string& name) {
                                (void)translator.encode("", {.source_language = name});
                              });
  spoken.target = language_of(model, request, "target_language", all.target,
                              [](const Translator& translator, const std::string& name) {
                                (void)translator.search({.target_language = name});
                              });
  return spoken;
}

Ids ids_of_text(const Served& model, text::Side side, std::string_view text, const Spoken& spoken) {
  if (text::valid_utf8_prefix(text) != text.size()) throw Error("text: expected valid UTF-8");
  Ids ids;
  if (side == text::Side::target && model.decodes()) {
    ids = model.target->encode(text);
    require_fits(ids.size(), model.translates() ? model.longest() - 1 : model.longest());
  } else if (model.translates()) {
    require_fits(model.source->encode(text).size(), model.longest() - 1);
    try {
      ids = model.translator->encode(text, {.source_language = spoken.source, .target_language = spoken.target});
    } catch (const Error& error) {  // where the tokenizer's limit is below the model's
      throw Refused(413, error.what());
    }
  } else if (!model.decodes()) {
    ids = ids_of_encoder(model, text);
    require_fits(ids.size(), model.longest());
  } else {
    throw Error("side: expected target, as a decoder-only model has no source");
  }
  return ids;
}

Reading reading_of_ids(std::shared_ptr<const Served> model, const Arguments& object) {
  Reading reading{.model = std::move(model)};
  const Served& served = *reading.model;
  const models::Config& config = served.config();
  if (served.encodes()) reading.source = checked_ids(object, "source", config.source_vocabulary, served.longest());
  if (served.decodes()) reading.target = checked_ids(object, "target", config.target_vocabulary, served.longest());
  if ((served.encodes() && reading.source.empty()) || (served.decodes() && reading.target.empty()))
    throw Error("expected at least one token of everything that the model reads; found none");
  return reading;
}

void require_no_ids(const Arguments& request) {
  for (const char* const ids : {"source", "target"})
    if (request.has(ids)) throw Error("text: expected without " + std::string(ids) + "; found both");
}

Reading reading_of(std::shared_ptr<const Served> model, const Arguments& request) {
  const Spoken spoken = spoken_of(*model, request);
  if (!request.has("text")) {
    Reading given = reading_of_ids(std::move(model), request);
    given.spoken = spoken;
    return given;
  }
  require_no_ids(request);
  Reading reading{.model = std::move(model), .spoken = spoken};
  const Served& served = *reading.model;
  const std::string text = request.text("text");
  (served.encodes() ? reading.source : reading.target) =
      ids_of_text(served, served.encodes() ? text::Side::source : text::Side::target, text, spoken);
  if (served.translates()) reading.target = {served.search({}, spoken).begin_id};
  if ((served.encodes() && reading.source.empty()) || (served.decodes() && reading.target.empty()))
    throw Error("text: expected at least one token; found an empty text");
  return reading;
}

std::vector<std::string> pieces(const Served& model, const Ids& ids) {
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(model.piece(id));
  return out;
}

std::vector<std::string> source_pieces(const Served& model, const Ids& ids) {
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(model.source_piece(id));
  return out;
}

std::string text_of(const text::Tokenizer& tokenizer, Ids ids) {
  std::erase_if(ids, [&](int32_t id) { return id >= tokenizer.vocabulary(); });
  return tokenizer.decode(ids);
}

void Probes::on_attention(std::string_view layer, const Tensor& query, const Tensor& key, const Tensor& value,
                          AttentionOptions& options) {
  for (nn::Probe* probe : probes_) probe->on_attention(layer, query, key, value, options);
}

Tensor Probes::on_heads(std::string_view layer, const Tensor& heads) {
  Tensor now = heads;
  for (nn::Probe* probe : probes_) now = probe->on_heads(layer, now);
  return now;
}

void Probes::on_added(std::string_view sublayer, const Tensor& added) {
  for (nn::Probe* probe : probes_) probe->on_added(sublayer, added);
}

Tensor Probes::on_state(std::string_view sublayer, const Tensor& state) {
  Tensor now = state;
  for (nn::Probe* probe : probes_) now = probe->on_state(sublayer, now);
  return now;
}

Tensor logits_of(const Reading& reading, nn::Probe* probe, nn::AttentionObserver* observer) {
  const NoGradScope no_grad;
  Asking asking;
  nn::Probe nothing;
  Probes both({&asking, probe != nullptr ? probe : &nothing});
  const nn::ProbeScope scope(both);
  std::optional<nn::ObserverScope> watched;
  if (observer != nullptr) watched.emplace(*observer);
  const models::Model& model = *reading.model->model;
  const Tensor source = reading.source.empty() ? Tensor() : pipelines::as_row(reading.source);
  const Tensor lengths = reading.source.empty() ? Tensor() : pipelines::length_of(reading.source);
  Tensor logits;
  if (reading.model->translates()) {
    logits = dynamic_cast<const models::Transformer&>(model)
                 .forward(source, lengths, pipelines::as_row(reading.target))
                 .data();
  } else if (reading.model->decodes()) {
    logits = dynamic_cast<const models::Gpt&>(model).forward(pipelines::as_row(reading.target)).data();
  } else if (reading.model->guesses()) {
    logits = dynamic_cast<const models::Bert&>(model).forward(source, lengths).data();
  } else {
    (void)dynamic_cast<const models::Bert&>(model).encode(source, lengths);
  }
  return logits.defined() ? logits.select(0, 0).contiguous() : logits;
}

Tensor lens(const Served& model, const Tensor& states) {
  const NoGradScope no_grad;
  const Value row(states.contiguous().reshape({1, states.size(0), states.size(1)}));
  const models::Model& m = *model.model;
  Value logits;
  if (model.translates())
    logits = dynamic_cast<const models::Transformer&>(m).logits_of(row);
  else if (model.decodes())
    logits = dynamic_cast<const models::Gpt&>(m).logits_of(row);
  else
    logits = dynamic_cast<const models::Bert&>(m).logits_of(row);
  return logits.data().select(0, 0).contiguous();
}

int64_t layers_of(const Served& model, std::string_view part) {
  return part == "encoder" ? model.config().encoder_layers : model.config().decoder_layers;
}

std::string attention_path(const Served& model, std::string_view part, int64_t layer) {
  require(layer >= 0 && layer < layers_of(model, part), "serve", "a layer below ", layers_of(model, part), "; found ",
          layer);
  const std::string stack = part == "encoder" ? "encoder" : "decoder";
  return stack + ".layers." + std::to_string(layer) + (part == "cross" ? ".cross_attention" : ".self_attention");
}

std::string part_of(const Served& model, const Arguments& request) {
  std::string part = request.text("part");
  const bool has = (part == "encoder" && model.encodes()) || (part == "decoder" && model.decodes()) ||
                   (part == "cross" && model.translates());
  if (!has)
    refuse(request.full_name("part"),
           model.translates() ? "encoder, decoder or cross"
           : model.decodes()  ? "decoder"
                              : "encoder",
           request.at("part"));
  return part;
}

std::pair<int64_t, int64_t> size_of_map(const Reading& reading, std::string_view part) {
  const auto source = static_cast<int64_t>(reading.source.size()), target = static_cast<int64_t>(reading.target.size());
  if (part == "encoder") return {source, source};
  return {target, part == "cross" ? source : target};
}

}  // namespace heed::serve
