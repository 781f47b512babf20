// heed classify: the class of each text, of each pair of texts, or of each token.
#include <fmt/core.h>

#include "cli/command.h"
#include "cli/encoder_job.h"
#include "cli/float_types.h"
#include "cli/json.h"
#include "heed/error.h"
#include "heed/pipelines.h"

namespace heed::cli {
namespace {

struct ClassifyCommand {
  std::string model;
  TextSource source;
  EncoderOptions classify;
  WeightFormat weights = WeightFormat::f32;
  bool pairs = false, tokens = false;
  LineOptions lines;
};

// Warns of the first text with a tab: in a training text, a class or a second text stands behind it.
class TabWarning {
 public:
  void look_at(const std::string& line, int64_t place, const TextOptions& text) {
    if (told_ || line.find('\t') == std::string::npos) return;
    told_ = true;
    warn(fmt::format("{}: the tab and what stands behind it are read as part of the text (--pairs reads two texts)",
                     text.name(place)));
  }

 private:
  bool told_ = false;
};

TextPair pair_of(const ClassifyCommand& o, const std::string& line, int64_t place, const TextOptions& text) {
  if (!o.pairs) return {.text = line};
  const size_t tab = line.find('\t');
  require(tab != std::string::npos, "classify", text.name(place), ": two texts with a tab between them; found no tab");
  require(line.find('\t', tab + 1) == std::string::npos, "classify", text.name(place),
          ": two texts with a tab between them; found a second tab, as in a training text with classes");
  return {.text = line.substr(0, tab), .pair = line.substr(tab + 1)};
}

// A class among the scores: its label, with its number where several have that label.
std::string key_of(const std::vector<std::string>& labels, size_t i) {
  return std::ranges::count(labels, labels[i]) == 1 ? labels[i] : fmt::format("{} (class {})", labels[i], i);
}

std::string as_json(const Encoder& encoder, const TextPair& text, const Classification* made) {
  JsonObject object, scores;
  object.add("text", text.text);
  if (text.pair) object.add("pair", *text.pair);
  if (made == nullptr) return object.add_json("label", "null").text();
  for (size_t i = 0; i < made->scores.size(); ++i) scores.add(key_of(encoder.labels(), i), made->scores[i]);
  return object.add("label", made->label).add("score", made->score).add("scores", scores).text();
}

std::vector<std::string> classes_of_texts(const ClassifyCommand& o, const Encoder& encoder,
                                          std::span<const std::string> lines, const TextOptions& text, bool json,
                                          TabWarning& tabs) {
  EncoderOptions options = o.classify;
  std::vector<TextPair> texts;
  std::vector<int64_t> places;  // of those that are not empty
  for (size_t i = 0; i < lines.size(); ++i) {
    if (is_blank(lines[i])) continue;
    places.push_back(static_cast<int64_t>(i));
    if (!o.pairs) tabs.look_at(lines[i], places.back(), text);
    texts.push_back(pair_of(o, lines[i], places.back(), text));
  }
  options.text = {.too_long = text.too_long,
                  .on_warning =
                      [&](TextWarning warning) {
                        warning.text = places[static_cast<size_t>(warning.text)];
                        if (text.on_warning) text.on_warning(warning);
                      },
                  .name = [&](int64_t place) { return text.name(places[static_cast<size_t>(place)]); }};
  const std::vector<Classification> classes = encoder.classify(texts, options);
  std::vector<std::string> made;
  for (const std::string& line : lines) {
    const size_t tab = o.pairs ? line.find('\t') : std::string::npos;
    TextPair blank{.text = line.substr(0, tab), .pair = std::nullopt};
    if (o.pairs) blank.pair = tab == std::string::npos ? "" : line.substr(tab + 1);
    made.push_back(json ? as_json(encoder, blank, nullptr) + '\n' : "\n");
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    made[static_cast<size_t>(places[i])] =
        json ? as_json(encoder, texts[i], &classes[i]) + '\n'
             : fmt::format("{}\t{:.6f}\n", one_field(classes[i].label), classes[i].score);
  }
  return made;
}

std::string classes_of_tokens(const Encoder& encoder, const std::string& line, const EncoderOptions& options) {
  std::vector<JsonObject> tokens;
  for (const TokenClass& one : encoder.classify_tokens(line, options)) {
    JsonObject object;
    object.add("token", one.token).add("begin", one.span.begin).add("end", one.span.end);
    tokens.push_back(object.add("label", one.label).add("score", one.score));
  }
  return JsonObject().add("text", line).add("tokens", tokens).text() + '\n';
}

std::vector<std::string> classes_of_all_tokens(const ClassifyCommand& o, const Encoder& encoder,
                                               std::span<const std::string> lines, const TextOptions& text) {
  std::vector<std::string> made;
  for (const std::string& line : lines) {
    const int64_t place = std::ssize(made);
    EncoderOptions options = o.classify;
    options.text = {.too_long = text.too_long,
                    .on_warning =
                        [&](TextWarning warning) {
                          warning.text = place;
                          if (text.on_warning) text.on_warning(warning);
                        },
                    .name = [&](int64_t) { return text.name(place); }};
    made.push_back(classes_of_tokens(encoder, line, options));
  }
  return made;
}

int run_classify(const ClassifyCommand& o, Context& context) {
  check_text_source(o.source);
  if (o.pairs && o.tokens) throw UsageError("--pairs or --tokens can be given; found both");
  if (o.tokens && !o.classify.prompt.empty()) throw UsageError("--prompt or --tokens can be given; found both");
  const Encoder encoder = Encoder::load(o.model, o.weights);
  encoder.require_head(o.tokens ? models::Head::token_class : models::Head::text_class);
  if (!o.tokens) (void)encoder.class_logits({}, o.classify);  // refuses a prompt that is unknown before a line comes
  require_same_work(encoder.model(), {&encoder.tokenizer()}, o.lines, context);
  TabWarning tabs;
  const LineJob job = encoder_job(o.source, [&](std::span<const std::string> lines, const TextOptions& text) {
    return o.tokens ? classes_of_all_tokens(o, encoder, lines, text)
                    : classes_of_texts(o, encoder, lines, text, context.json, tabs);
  });
  return run_lines(job, o.lines, context);
}

}  // namespace

void add_classify_command(Options& options) {
  auto o = std::make_shared<ClassifyCommand>();
  options.add("MODEL", o->model, "Folder of a model that tells classes, or its name in Hugging Face's cache")
      .takes("DIR")
      .required();
  add_text_source(options, o->source, "classify");
  options.flag("--pairs", o->pairs, "Each line is two texts with a tab between them");
  options.flag("--tokens", o->tokens, "Write the class of each token, with its bytes in the text, as JSON");
  options
      .add("--prompt", o->classify.prompt,
           "Name of the model's prompt that stands in front of each text, or of the first of two")
      .takes("NAME");
  options.flag("--parse-special", o->classify.parse_special, kParseSpecialHelp);
  options
      .add("--batch-tokens", o->classify.batch_tokens,
           "Tokens in a batch at most, padding included; 0 is 384, or 256 with int8 weights")
      .range(0);
  options.choose("--weights", o->weights, kWeightFormats, kWeightsHelp);
  add_too_long(options, o->source);
  add_line_options(options, o->lines);
  options.footer(
      "Writes the likeliest class and its probability, with a tab between them. Models\n"
      "that compare pairs may give plain numbers instead, as their config.json says.\n"
      "Blank lines become empty. With --json, each line is an object with all scores.\n"
      "Examples:\n"
      "  heed classify models/sentiment 'I would read it again.'\n"
      "  heed classify models/ranking --pairs < questions-and-answers.tsv\n"
      "  heed classify models/names --tokens 'Ada Lovelace lived in London.'\n");
  options.has_json();
  options.on_run([o](Context& c) { return run_classify(*o, c); });
}

}  // namespace heed::cli
