// The tree of a beam search: who lived, who ended, who was dropped, and by how much.
#include <map>

#include "heed/error.h"
#include "heed/generate.h"
#include "serve/stop.h"
#include "serve/views.h"
#include "serve/writer.h"

namespace heed::serve {

using nlohmann::json;

json beam_tree(const Served& model, const Arguments& request) {
  if (!model.translates()) throw Error("beam: expected a model that translates; found " + model.name);
  const Spoken spoken = spoken_of(model, request);
  if (request.has("text")) require_no_ids(request);
  const Ids source = request.has("text") ? ids_of_text(model, text::Side::source, request.text("text"), spoken) : Ids();
  Ids read = source;
  if (!request.has("text"))
    for (const int64_t id : request.integers("source", 0, model.config().source_vocabulary - 1))
      read.push_back(static_cast<int32_t>(id));
  if (read.empty()) throw Error("text: expected at least one token; found an empty text");
  const int64_t beam = request.integer("beam", 1, 32, 5);
  generate::BeamOptions options = model.search({.beam = beam,
                                                .n_best = beam,
                                                .length_penalty = request.number("length_penalty", 0, 10),
                                                .max_length = request.integer("max_tokens", 1, 256, 256)},
                                               spoken);
  options.stop = told_to_stop;
  json nodes = json::array();
  std::vector<int64_t> place;  // of the search's nodes among `nodes`
  options.on_step = [&](const generate::BeamStep& step) {
    const auto parent_of = [&](int64_t node) { return node < 0 ? -1 : place[static_cast<size_t>(node)]; };
    for (const auto& one : step.dropped) {
      json& node = nodes[static_cast<size_t>(parent_of(one.node))];
      node["fate"] = "dropped";
      node["best"] = one.best;
      node["behind"] = one.least;
    }
    for (const auto& one : step.chosen) {
      if (one.node >= 0) {
        place.resize(static_cast<size_t>(one.node) + 1, -1);
        place[static_cast<size_t>(one.node)] = static_cast<int64_t>(nodes.size());
      }
      nodes.push_back({{"parent", parent_of(one.parent)},
                       {"id", one.id},
                       {"token", model.piece(one.id)},
                       {"log_prob", one.log_prob},
                       {"sum", one.sum},
                       {"step", step.length},
                       {"fate", one.node >= 0 ? "lives" : "ended"}});
    }
  };
  const auto found = generate::translate(dynamic_cast<const models::Transformer&>(*model.model), std::span(&read, 1),
                                         {.search = options});
  go_on();
  // What lived to the end and nothing came of: the search was over.
  std::vector<uint8_t> has_child(nodes.size(), 0);
  for (const json& node : nodes)
    if (node["parent"] >= 0) has_child[node["parent"].get<size_t>()] = 1;
  for (size_t n = 0; n < nodes.size(); ++n)
    if (has_child[n] == 0 && nodes[n]["fate"] == "lives") nodes[n]["fate"] = "limit";

  std::map<std::pair<int64_t, int32_t>, int64_t> children;  // of a node, by the token
  for (size_t n = 0; n < nodes.size(); ++n)
    children[{nodes[n]["parent"].get<int64_t>(), nodes[n]["id"].get<int32_t>()}] = static_cast<int64_t>(n);
  json hypotheses = json::array();
  for (const generate::Hypothesis& hypothesis : found.at(0)) {
    double sum = 0;
    for (const float log_prob : hypothesis.log_probs) sum += static_cast<double>(log_prob);
    // Its last node: follow its tokens, and its end where it has one.
    Ids way = hypothesis.ids;
    if (hypothesis.finished) way.push_back(static_cast<int32_t>(model.config().end_id));
    int64_t at = -1;
    for (const int32_t id : way) {
      const auto child = children.find({at, id});
      if (child != children.end()) at = child->second;
    }
    hypotheses.push_back({{"node", at},
                          {"text", text_of(*model.target, hypothesis.ids)},
                          {"score", hypothesis.score},
                          {"sum", sum},
                          {"length", way.size()},
                          {"finished", hypothesis.finished}});
  }
  const auto tokens = source_pieces(model, read);
  return {{"source", read},
          {"source_tokens", tokens},
          {"length_penalty", options.length_penalty.value_or(1)},
          {"nodes", nodes},
          {"hypotheses", hypotheses}};
}

}  // namespace heed::serve
