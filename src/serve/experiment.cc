// The same run with something switched off or replaced, beside the run as it was.
#include <bit>
#include <cmath>

#include "heed/error.h"
#include "serve/run.h"
#include "serve/stop.h"

namespace heed::serve {
namespace {

using nlohmann::json;

// The residual stream after every sublayer, in the order of computation.
struct States : nn::Probe {
  std::vector<std::pair<std::string, Tensor>> all;
  Tensor on_state(std::string_view sublayer, const Tensor& state) override {
    all.emplace_back(std::string(sublayer), state.clone());
    return state;
  }
};

// How many numbers have other bits, and the largest difference.
json compare(const std::string& name, const Tensor& before, const Tensor& after) {
  const float* a = before.data<float>();
  const float* b = after.data<float>();
  int64_t changed = 0;
  double largest = 0;
  for (int64_t i = 0; i < before.numel(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i])) continue;
    ++changed;
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return {{"name", name}, {"numbers", before.numel()}, {"changed", changed}, {"largest", largest}};
}

// The token that each row is asked about: what the given target has next, and the likeliest one in the last row.
Ids asked(const Reading& reading, const Tensor& logits) {
  if (!logits.defined()) return {};
  const Served& model = *reading.model;
  if (!model.decodes()) {
    Ids all;
    for (int64_t i = 0; i < logits.size(0); ++i) all.push_back(row_of(logits, i).likeliest(model));
    return all;
  }
  Ids out(reading.target.begin() + 1, reading.target.end());
  out.push_back(row_of(logits, logits.size(0) - 1).likeliest(model));
  return out;
}

}  // namespace

json experiment(const Reading& reading, const Arguments& request) {
  constexpr int64_t kMostWritten = 256;
  const Served& model = *reading.model;
  constexpr int64_t kMostNumbers = 64'000'000;  // of all states of a pass, which are kept twice
  const models::Config& config = model.config();
  const int64_t states = config.width * (static_cast<int64_t>(reading.source.size()) * 2 * config.encoder_layers +
                                         static_cast<int64_t>(reading.target.size()) * 3 * config.decoder_layers);
  if (states > kMostNumbers)
    throw Refused(413, "expected an experiment with a shorter text; the states of this one are " +
                           std::to_string(states) + " numbers of the " + std::to_string(kMostNumbers) +
                           " that are compared");
  const std::vector<Change> list = changes_of(reading, request);
  States before, after;
  const Tensor plain = logits_of(reading, &before);
  go_on();
  Changes changes(list);
  Probes both({&changes, &after});
  const Tensor changed = logits_of(reading, &both);
  go_on();

  const Ids output = asked(reading, plain);
  json log_probs = json::array(), changed_log_probs = json::array();
  Ids likeliest;
  for (int64_t i = 0; i < std::ssize(output); ++i) {
    const int32_t id = output[static_cast<size_t>(i)];
    log_probs.push_back(row_of(plain, i).log_prob(id));
    const Row row = row_of(changed, i);
    changed_log_probs.push_back(row.log_prob(id));
    likeliest.push_back(row.likeliest(model));
  }
  json reach = json::array();
  for (size_t i = 0; i < before.all.size(); ++i)
    reach.push_back(compare(before.all[i].first, before.all[i].second, after.all[i].second));
  json answer = {
      {"before", {{"log_probs", log_probs}, {"output", output}, {"output_tokens", pieces(model, output)}}},
      {"after",
       {{"log_probs", changed_log_probs}, {"likeliest", likeliest}, {"likeliest_tokens", pieces(model, likeliest)}}},
      {"reach", reach}};
  if (!model.decodes()) return answer;

  // What the changed model writes by itself: a translation from its beginning, a text from where it ends, or from where
  // the request says.
  const json none = json::object();
  const Arguments search(request.has("search") ? request.at("search") : none, {"max_tokens", "prefix", "keep"},
                         "search");
  Reading start = reading;
  const auto given_tokens = static_cast<int64_t>(reading.target.size());
  start.target.resize(
      static_cast<size_t>(search.integer("keep", 1, given_tokens, model.translates() ? 1 : given_tokens)));
  Ids forced;
  if (search.has("prefix"))
    for (const int64_t id : search.integers("prefix", 0, model.config().target_vocabulary - 1))
      forced.push_back(static_cast<int32_t>(id));
  if (static_cast<int64_t>(forced.size()) > kMostWritten)
    throw Refused(413, "search.prefix: at most " + std::to_string(kMostWritten) + " tokens; found " +
                           std::to_string(forced.size()));
  const int64_t most = std::max(most_tokens(start, search.integer("max_tokens", 0, kMostWritten, 64)),
                                static_cast<int64_t>(forced.size()));
  const auto prompt = static_cast<std::ptrdiff_t>(start.target.size());
  Writer writer(start, list);
  int32_t last = -1;  // the end that was written, or what would come next
  bool finished = false;
  for (int64_t step = 0; step < most && writer.has_room() && !finished; ++step) {
    go_on();
    const bool given = step < static_cast<int64_t>(forced.size());
    last = given ? forced[static_cast<size_t>(step)] : choose(writer.reading(), writer.logits(), {}, {step, most});
    finished = last == model.config().end_id;
    if (!finished) writer.write(last);
  }
  const Reading& all = writer.reading();
  Changes again(list);
  const Tensor logits = logits_of(all, &again);
  Ids written(all.target.begin() + 1, all.target.end());
  written.push_back(finished ? last : row_of(logits, logits.size(0) - 1).likeliest(model));
  answer["output"] = done_event(all, written, logits, finished,
                                text_of(*model.target, Ids(all.target.begin() + prompt, all.target.end())));
  return answer;
}

}  // namespace heed::serve
