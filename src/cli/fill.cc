// heed fill: the words that a masked language model puts in place of its mask.
#include <fmt/core.h>

#include "cli/command.h"
#include "cli/encoder_job.h"
#include "cli/float_types.h"
#include "cli/json.h"
#include "heed/error.h"
#include "heed/pipelines.h"

namespace heed::cli {
namespace {

struct FillCommand {
  std::string model;
  TextSource source;
  WeightFormat weights = WeightFormat::f32;
  int64_t top = 5;
};

std::string as_json(const std::string& text, const std::vector<std::vector<Filling>>& masks) {
  std::vector<std::vector<JsonObject>> all;
  for (const std::vector<Filling>& fillings : masks) {
    std::vector<JsonObject> objects;
    for (const Filling& one : fillings)
      objects.push_back(JsonObject().add("token", one.token).add("id", one.id).add("probability", one.probability));
    all.push_back(std::move(objects));
  }
  return JsonObject().add("text", text).add("masks", all).text() + '\n';
}

std::string as_lines(const std::vector<std::vector<Filling>>& masks) {
  std::string lines;
  for (size_t mask = 0; mask < masks.size(); ++mask) {
    for (const Filling& one : masks[mask]) {
      if (masks.size() > 1) lines += fmt::format("{}\t", mask + 1);
      lines += fmt::format("{}\t{:.6f}\n", one_line(one.token), one.probability);
    }
  }
  return lines;
}

int run_fill(const FillCommand& o, Context& context) {
  check_text_source(o.source);
  const Encoder encoder = Encoder::load(o.model, o.weights);
  encoder.require_head(models::Head::masked_token);
  const LineJob job = encoder_job(o.source, [&](std::span<const std::string> lines, const TextOptions& text) {
    std::vector<std::string> made;
    for (const std::string& line : lines) {
      const int64_t place = std::ssize(made);
      FillOptions options{.count = o.top, .text = {.name = [&](int64_t) { return text.name(place); }}};
      if (is_blank(line)) {
        made.push_back(context.json ? as_json(line, {}) : "\n");
        continue;
      }
      const auto masks = encoder.fill(line, options);
      made.push_back(context.json ? as_json(line, masks) : as_lines(masks));
    }
    return made;
  });
  return run_lines(job, {}, context);
}

}  // namespace

void add_fill_command(Options& options) {
  auto o = std::make_shared<FillCommand>();
  options.add("MODEL", o->model, "Folder of a masked language model, or its name in Hugging Face's cache")
      .takes("DIR")
      .required();
  add_text_source(options, o->source, "complete, with [MASK] (or the model's own word for it) where a word is missing");
  options.add("--top", o->top, "Write so many tokens for each mask").range(1);
  options.choose("--weights", o->weights, kWeightFormats, kWeightsHelp);
  options.footer(
      "Writes token and probability, with a tab; of several masks, the mask's number\n"
      "first. Blank lines become empty. With --json, each text is an object.\n"
      "Examples:\n"
      "  heed fill models/bert 'Paris is the [MASK] of France.'\n"
      "  heed fill models/roberta 'Paris is the <mask> of France.' --top 3 --json\n");
  options.has_json();
  options.on_run([o](Context& c) { return run_fill(*o, c); });
}

}  // namespace heed::cli
