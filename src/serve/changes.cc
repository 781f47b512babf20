#include "serve/changes.h"

#include <algorithm>
#include <cstring>

#include "heed/error.h"
#include "serve/service.h"

namespace heed::serve {
namespace {

// "decoder.layers.2.cross_attention", taken apart.
struct PathParts {
  std::string_view stack;  // "decoder"
  int64_t layer = -1;      // -1: the embedding
  std::string_view sublayer;
};

PathParts take_apart(std::string_view path) {
  constexpr std::string_view kLayers = ".layers.";
  const size_t at = path.find(kLayers);
  const std::string_view stack = path.substr(0, path.find('.'));
  if (at == std::string_view::npos) return {.stack = stack, .sublayer = path.substr(path.find('.') + 1)};
  const std::string_view rest = path.substr(at + kLayers.size());
  const size_t dot = rest.find('.');
  return {.stack = stack, .layer = std::stoll(std::string(rest.substr(0, dot))), .sublayer = rest.substr(dot + 1)};
}

std::string part_named(const PathParts& path) {
  return path.sublayer == "cross_attention" ? "cross" : std::string(path.stack);
}

// Whether an edge or a token is about the attention of this part, layer (any head).
bool concerns(const Change& change, const std::string& part, int64_t layer) {
  if (change.kind == Change::Kind::edge) return change.part == part && (change.layer < 0 || change.layer == layer);
  if (change.kind != Change::Kind::token) return false;
  return change.part == "source" ? part == "encoder" || part == "cross" : part == "decoder";
}

Change parse_change(const Reading& reading, const Arguments& a) {
  const Served& model = *reading.model;
  const std::string kind = a.text("kind");
  Change change;
  const auto layer = [&](int64_t least) {
    return a.has("layer") || least == 0 ? a.integer("layer", 0, layers_of(model, change.part) - 1) : -1;
  };
  const auto head = [&](int64_t least) {
    return a.has("head") || least == 0 ? a.integer("head", 0, model.config().heads - 1) : -1;
  };
  if (kind == "head") {
    change = {.kind = Change::Kind::head, .part = part_of(model, a)};
    change.layer = layer(0);
    change.head = head(0);
  } else if (kind == "layer") {
    change = {.kind = Change::Kind::layer, .part = part_of(model, a)};
    if (change.part == "cross") refuse(a.full_name("part"), "encoder or decoder for a layer", a.at("part"));
    change.layer = layer(0);
  } else if (kind == "edge") {
    change = {.kind = Change::Kind::edge, .part = part_of(model, a)};
    change.layer = layer(-1);
    change.head = head(-1);
    const auto [rows, columns] = size_of_map(reading, change.part);
    change.row = a.integer("row", 0, rows - 1);
    change.column = a.integer("column", 0, columns - 1);
  } else if (kind == "token") {
    change = {.kind = Change::Kind::token, .part = a.text("side")};
    const bool source = change.part == "source" && model.encodes(), target = change.part == "target" && model.decodes();
    if (!source && !target) refuse(a.full_name("side"), "a side that the model has, source or target", a.at("side"));
    const Ids& side = source ? reading.source : reading.target;
    change.column = a.integer("position", 0, static_cast<int64_t>(side.size()) - 1);
  } else if (kind == "state") {
    change = {.kind = Change::Kind::state, .part = part_of(model, a)};
    if (change.part == "cross") refuse(a.full_name("part"), "encoder or decoder for a state", a.at("part"));
    change.layer = layer(0);
    const bool encoder = change.part == "encoder";
    const Ids& side = encoder ? reading.source : reading.target;
    change.column = a.integer("position", 0, static_cast<int64_t>(side.size()) - 1);
    const Arguments from(a.at("from"), {"source", "target", "position"}, a.full_name("from"));
    const Reading other = reading_of_ids(reading.model, from);
    const int64_t position =
        from.integer("position", 0, static_cast<int64_t>((encoder ? other.source : other.target).size()) - 1);
    // The state after that layer, in a pass of its own.
    struct Keep : nn::Probe {
      std::string path;
      Tensor kept;
      Tensor on_state(std::string_view sublayer, const Tensor& state) override {
        if (sublayer == path) kept = state.clone();
        return state;
      }
    } keep;
    keep.path = change.part + ".layers." + std::to_string(change.layer) + ".feed_forward";
    (void)logits_of(other, &keep);
    change.state = keep.kept.select(0, 0).select(0, position).clone();
  } else {
    refuse(a.full_name("kind"), "head, layer, edge, token or state", a.at("kind"));
  }
  return change;
}

// Whether `a` leaves nothing of `b`, or is the same.
bool excludes(const Change& a, const Change& b) {
  using Kind = Change::Kind;
  const auto stack = [](const Change& c) { return c.part == "encoder" ? "encoder" : "decoder"; };
  const auto inside = [](int64_t all, int64_t one) { return all < 0 || all == one; };
  if (a.kind == Kind::layer && (b.kind == Kind::head || b.kind == Kind::edge || b.kind == Kind::layer))
    return std::string_view(stack(a)) == stack(b) && b.layer == a.layer;
  if (a.kind == Kind::head && b.kind == Kind::edge) return a.part == b.part && b.layer == a.layer && b.head == a.head;
  if (a.kind == Kind::token && b.kind == Kind::edge) {
    const bool source_columns = b.part != "decoder";
    return (a.part == "source") == source_columns && a.column == b.column;
  }
  if (a.kind != b.kind || a.part != b.part) return false;
  switch (a.kind) {
    case Kind::head: return a.layer == b.layer && a.head == b.head;
    case Kind::edge:
      return a.row == b.row && a.column == b.column && inside(a.layer, b.layer) && inside(a.head, b.head);
    case Kind::token: return a.column == b.column;
    case Kind::state: return a.layer == b.layer && a.column == b.column;
    case Kind::layer: return a.layer == b.layer;
  }
  return false;
}

// Masks of edges and tokens have a byte for each weight of a layer.
void require_masks_fit(const Reading& reading, const std::vector<Change>& changes) {
  constexpr int64_t kMostBytes = 256'000'000;
  const auto longest = static_cast<int64_t>(std::max(reading.source.size(), reading.target.size()));
  const bool fits = reading.model->config().heads * longest * longest <= kMostBytes;
  for (const Change& change : changes)
    if (!fits && (change.kind == Change::Kind::edge || change.kind == Change::Kind::token))
      throw Refused(413,
                    "changes: edges and tokens of a shorter text; found one of " + std::to_string(longest) + " tokens");
}

}  // namespace

std::vector<Change> changes_of(const Reading& reading, const Arguments& request) {
  constexpr size_t kMostChanges = 256;
  std::vector<Change> changes;
  if (!request.has("changes")) return changes;
  const nlohmann::json& list = request.at("changes");
  if (!list.is_array() || list.size() > kMostChanges)
    refuse(request.full_name("changes"), "a list of at most 256 changes", list);
  for (size_t i = 0; i < list.size(); ++i) {
    const Arguments one(list[i], {"kind", "part", "layer", "head", "row", "column", "side", "position", "from"},
                        request.full_name("changes[" + std::to_string(i) + "]"));
    changes.push_back(parse_change(reading, one));
    for (size_t k = 0; k < i; ++k)
      if (excludes(changes[k], changes[i]) || excludes(changes[i], changes[k]))
        throw Error("changes[" + std::to_string(k) + "] and changes[" + std::to_string(i) +
                    "]: expected changes that do not exclude each other; one leaves nothing of the other");
  }
  require_masks_fit(reading, changes);
  return changes;
}

void Changes::on_attention(std::string_view layer, const Tensor& query, const Tensor& key, const Tensor&,
                           AttentionOptions& options) {
  const PathParts path = take_apart(layer);
  const std::string part = part_named(path);
  const int64_t heads = query.size(1), rows = query.size(2), columns = key.size(2);
  Tensor mask;  // (H, L, S)
  for (const Change& change : changes_) {
    if (!concerns(change, part, path.layer)) continue;
    if (change.column >= columns || change.row >= rows) continue;  // not written yet
    if (!mask.defined()) {
      mask = Tensor::empty({heads, rows, columns}, DType::boolean);
      std::memset(mask.raw(), 1, static_cast<size_t>(mask.nbytes()));
    }
    bool* const sees = mask.data<bool>();
    for (int64_t h = 0; h < heads; ++h) {
      if (change.head >= 0 && change.head != h) continue;
      for (int64_t i = 0; i < rows; ++i)
        if (change.row < 0 || change.row == i) sees[(h * rows + i) * columns + change.column] = false;
    }
  }
  if (!mask.defined()) return;
  require(!options.mask.defined(), "serve", "a model without masks of its own; found one");
  options.mask = mask;
}

bool Changes::silences(std::string_view part, int64_t layer, int64_t head) const {
  return std::any_of(changes_.begin(), changes_.end(), [&](const Change& change) {
    if (change.layer != layer) return false;
    if (change.kind == Change::Kind::head) return change.part == part && change.head == head;
    return change.kind == Change::Kind::layer && (change.part == "encoder") == (part == "encoder");
  });
}

Tensor Changes::on_heads(std::string_view layer, const Tensor& heads) {
  const PathParts path = take_apart(layer);
  Tensor now = heads;
  for (const Change& change : changes_) {
    if (change.kind != Change::Kind::head || change.layer != path.layer || change.part != part_named(path)) continue;
    if (now.raw() == heads.raw()) now = heads.clone();
    now.select(1, change.head).zero();
  }
  return now;
}

Tensor Changes::on_state(std::string_view sublayer, const Tensor& state) {
  const PathParts path = take_apart(sublayer);
  if (path.layer >= 0 && path.sublayer != "feed_forward") return state;  // not the end of a layer
  Tensor now = state;
  const auto here = [&](const Change& change, Change::Kind kind) {
    return path.layer >= 0 && change.kind == kind && change.layer == path.layer && change.part == path.stack;
  };
  for (const Change& change : changes_)
    if (here(change, Change::Kind::layer)) now = before_.find(path.stack)->second;
  for (const Change& change : changes_) {  // into what a layer hands on, be it on or off
    if (!here(change, Change::Kind::state) || change.column >= state.size(1)) continue;
    now = now.clone();
    now.select(0, 0).select(0, change.column).copy_from(change.state);
  }
  before_.insert_or_assign(std::string(path.stack), now);
  return now;
}

}  // namespace heed::serve
