#include "serve/run.h"

#include <cmath>

#include "heed/error.h"
#include "serve/stop.h"

namespace heed::serve {
namespace {

using nlohmann::json;

constexpr int64_t kMostWritten = 1024;
// Prompts beyond this are not read a second time for the entropy of each of their tokens.
constexpr size_t kLongPrompt = 2048;

std::string target_text(const Reading& reading, size_t begin, size_t end) {
  const Served& model = *reading.model;
  Ids ids(reading.target.begin() + static_cast<std::ptrdiff_t>(begin),
          reading.target.begin() + static_cast<std::ptrdiff_t>(end));
  if (!ids.empty() && ids.back() == model.config().end_id) ids.pop_back();
  return text_of(*model.target, std::move(ids));
}

// Bytes of a character that is not whole yet wait for the rest of it.
std::string whole_characters(std::string text) {
  constexpr std::string_view kReplacement = "\uFFFD";
  while (text.ends_with(kReplacement)) text.resize(text.size() - kReplacement.size());
  return text;
}

json start_event(const Reading& reading) {
  const Served& model = *reading.model;
  const auto source = source_pieces(model, reading.source), target = pieces(model, reading.target);
  return {{"source", reading.source}, {"source_tokens", source}, {"source_words", words_of(source)},
          {"target", reading.target}, {"target_tokens", target}, {"target_words", words_of(target)}};
}

// Of an encoder-only model: one pass.
class ReadOnly : public Service::Stream {
 public:
  ReadOnly(Reading reading, std::vector<Change> changes) : reading_(std::move(reading)), changes_(std::move(changes)) {}
  bool step(const Send& send) override {
    if (!send("start", start_event(reading_))) return false;
    Changes changes(changes_);
    const Tensor logits = logits_of(reading_, &changes);
    Ids output;
    for (int64_t i = 0; logits.defined() && i < logits.size(0); ++i)
      output.push_back(row_of(logits, i).likeliest(*reading_.model));
    Ids filled = reading_.source;  // each mask gives way to what the model says there
    for (size_t i = 0; i < output.size(); ++i)
      if (filled[i] == reading_.model->mask_id()) filled[i] = output[i];
    send("done", done_event(reading_, output, logits, true, text_of(*reading_.model->source, std::move(filled))));
    return false;
  }

 private:
  Reading reading_;
  std::vector<Change> changes_;
};

class Writing : public Service::Stream {
 public:
  struct Plan {
    Choice choice;
    Ids forced;             // the first tokens that are written
    bool complete = false;  // nothing is written beyond the forced tokens
    int64_t most = 0;
    int64_t beam = 1;
    std::optional<double> length_penalty = {};
  };
  Writing(const Reading& reading, const std::vector<Change>& changes, Plan plan)
      : writer_(reading, changes), changes_(changes), plan_(std::move(plan)), prompt_(reading.target.size()) {}

  bool step(const Send& send) override {
    if (!started_) {
      started_ = true;
      if (!send("start", start_event(writer_.reading()))) return false;
      if (plan_.beam > 1 && plan_.most > 0) search();
      return true;
    }
    const Served& model = *writer_.reading().model;
    const auto written = static_cast<int64_t>(output_.size());
    const bool forced = written < static_cast<int64_t>(plan_.forced.size());
    if ((plan_.complete && !forced) || written >= plan_.most || !writer_.has_room()) return finish(send, false);
    const std::span<const float> logits = writer_.logits();
    const Tensor row = Tensor::from(logits, {1, static_cast<int64_t>(logits.size())});
    const Row now = row_of(row, 0);
    const int32_t id = forced ? plan_.forced[static_cast<size_t>(written)]
                              : choose(writer_.reading(), logits, plan_.choice, {written, plan_.most});
    const bool ends = id == model.config().end_id && (model.translates() || !plan_.choice.ignore_end);
    output_.push_back(id);
    const auto position = static_cast<int64_t>(writer_.reading().target.size()) - 1;
    if (!ends) writer_.write(id);
    const Reading& all = writer_.reading();
    const bool heard = send("token", {{"position", position},
                                      {"id", id},
                                      {"token", model.piece(id)},
                                      {"text", whole_characters(target_text(all, prompt_, all.target.size()))},
                                      {"log_prob", now.log_prob(id)},
                                      {"entropy", now.entropy_bits()}});
    if (!heard) return false;
    return ends ? finish(send, true) : true;
  }

 private:
  void search() {
    const Reading& reading = writer_.reading();
    const generate::BeamOptions options = reading.model->search({.beam = plan_.beam,
                                                                 .scores = false,
                                                                 .length_penalty = plan_.length_penalty,
                                                                 .max_length = plan_.most,
                                                                 .prefix = plan_.forced,
                                                                 .stop = told_to_stop},
                                                                reading.spoken);
    const auto found = generate::translate(dynamic_cast<const models::Transformer&>(*reading.model->model),
                                           std::span(&reading.source, 1), {.search = options});
    go_on();
    const generate::Hypothesis& best = found.at(0).at(0);
    plan_.forced = best.ids;
    if (best.finished) plan_.forced.push_back(static_cast<int32_t>(reading.model->config().end_id));
    plan_.most = std::max(plan_.most, static_cast<int64_t>(plan_.forced.size()));
    plan_.complete = true;
  }

  bool finish(const Send& send, bool finished) {
    const Reading& reading = writer_.reading();
    const Served& model = *reading.model;
    Tensor logits;
    if (reading.target.size() <= kLongPrompt) {
      Changes changes(changes_);
      logits = logits_of(reading, &changes);
    }
    // What each row wrote: of the prompt, what the text itself has next; the last row, where nothing ended it, what it
    // would have written.
    Ids output(reading.target.begin() + 1, reading.target.end());
    if (finished)
      output.push_back(output_.back());
    else
      output.push_back(logits.defined() ? row_of(logits, logits.size(0) - 1).likeliest(model)
                                        : choose(reading, writer_.logits(), {}, {}));
    send("done", done_event(reading, output, logits, finished, target_text(reading, prompt_, reading.target.size())));
    return false;
  }

  Writer writer_;
  std::vector<Change> changes_;
  Plan plan_;
  size_t prompt_;  // tokens of the target before anything was written
  Ids output_;
  bool started_ = false;
};

}  // namespace

json done_event(const Reading& reading, const Ids& output, const Tensor& logits, bool finished,
                const std::string& text) {
  const Served& model = *reading.model;
  json event = start_event(reading);
  const auto tokens = pieces(model, output);
  json log_probs = json::array(), entropies = json::array();
  for (int64_t i = 0; logits.defined() && i < logits.size(0); ++i) {
    const Row row = row_of(logits, i);
    log_probs.push_back(row.log_prob(output[static_cast<size_t>(i)]));
    entropies.push_back(row.entropy_bits());
  }
  event.update({{"finished", finished},
                {"output", output},
                {"output_tokens", tokens},
                {"output_words", words_of(tokens)},
                {"log_probs", log_probs},
                {"entropies", entropies},
                {"text", text}});
  return event;
}

std::unique_ptr<Service::Stream> start_run(const std::shared_ptr<const Served>& model, const Arguments& request) {
  Reading reading;
  const models::Config& config = model->config();
  if (request.has("text") && model->decodes() && !model->encodes() && request.text("text").empty()) {
    require_no_ids(request);
    reading = {.model = model, .target = model->target->encode("\n")};  // as Generator: what stands between two texts
    if (reading.target.empty()) reading.target = {static_cast<int32_t>(config.end_id)};
  } else {
    reading = reading_of(model, request);
  }
  std::vector<Change> changes = changes_of(reading, request);
  if (!model->decodes()) return std::make_unique<ReadOnly>(std::move(reading), std::move(changes));
  Writing::Plan plan;
  plan.choice.sampling = {.temperature = request.number("temperature", 0, 100, 0),
                          .top_k = request.integer("top_k", 0, int64_t{1} << 30, 0),
                          .top_p = request.number("top_p", 1e-6, 1, 1),
                          .min_p = request.number("min_p", 0, 1, 0),
                          .seed = static_cast<uint64_t>(request.integer("seed", 0, (int64_t{1} << 53), 0))};
  plan.choice.ignore_end = request.flag("ignore_end", false);
  plan.most = most_tokens(reading, request.integer("max_tokens", 0, kMostWritten, 256));
  plan.beam = request.integer("beam", 1, 64, 1);
  plan.length_penalty = request.number("length_penalty", 0, 10);
  if (plan.beam > 1 && (!model->translates() || plan.choice.sampling.temperature > 0 || !changes.empty()))
    throw Error("beam: expected 1 for models that continue a text, with a temperature and with changes");
  if (request.has("target_text")) {
    if (!model->translates()) throw Error("target_text: expected of models that translate alone");
    if (request.has("prefix")) throw Error("target_text: expected without prefix; found both");
    plan.forced = ids_of_text(*model, text::Side::target, request.text("target_text"), reading.spoken);
    const Ids first = model->search({.beam = 1}, reading.spoken).prefix;  // a language, say
    plan.forced.insert(plan.forced.begin(), first.begin(), first.end());
    plan.forced.push_back(static_cast<int32_t>(config.end_id));
    plan.complete = true;
    plan.beam = 1;
  } else if (request.has("prefix")) {
    for (const int64_t id : request.integers("prefix", 0, config.target_vocabulary - 1)) {
      if (id == config.end_id && model->translates()) throw Error("prefix: expected tokens before the end");
      plan.forced.push_back(static_cast<int32_t>(id));
    }
    if (static_cast<int64_t>(plan.forced.size()) > kMostWritten)
      throw Refused(413, "prefix: at most " + std::to_string(kMostWritten) + " tokens; found " +
                             std::to_string(plan.forced.size()));
  }
  plan.most = std::max(plan.most, static_cast<int64_t>(plan.forced.size()));
  return std::make_unique<Writing>(reading, changes, std::move(plan));
}

}  // namespace heed::serve
