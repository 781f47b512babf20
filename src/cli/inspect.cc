// heed inspect: a page that shows a model's attention for one text.
#include "heed/inspect.h"

#include <fmt/core.h>

#include <charconv>
#include <filesystem>
#include <optional>

#include "cli/command.h"
#include "cli/numbers.h"
#include "cli/pages.h"
#include "cli/warnings.h"
#include "heed/error.h"
#include "heed/pipelines.h"

namespace heed::cli {
namespace {

enum class Part { automatic, encoder, decoder, cross };

constexpr int64_t kUsualBeam = 5;

struct InspectCommand {
  std::string model, output, svg, png, head_json;
  std::optional<std::string> text, source, target;
  bool strongest = false, force = false, words = false;
  TooLong too_long = TooLong::refuse;
  Part part = Part::automatic;
  std::optional<int64_t> layer;
  std::optional<std::string> head;  // a number or "mean"
  std::optional<int64_t> beam, pool;
  std::string source_language, target_language;

  [[nodiscard]] bool wants_head() const { return strongest || !svg.empty() || !png.empty() || !head_json.empty(); }
  [[nodiscard]] bool chooses_head() const { return part != Part::automatic || layer || head; }
  // Standard output has results; otherwise it gets the names of the files.
  [[nodiscard]] bool fills_output(bool json) const {
    return json || strongest || output == "-" || svg == "-" || png == "-" || head_json == "-";
  }
  [[nodiscard]] bool wants_page(bool json) const { return !output.empty() || (!wants_head() && !json); }
  [[nodiscard]] std::string page() const { return output.empty() ? "attention.html" : output; }
};

void check_options(const InspectCommand& o, const Context& context) {
  if (o.text && o.source) throw UsageError("TEXT or --source can be given; found both");
  if (!o.text && !o.source) throw UsageError("TEXT is missing: the text that the model reads");
  if (o.text.value_or(o.source.value_or("")).find_first_not_of(" \t\r\n") == std::string::npos)
    throw UsageError(
        fmt::format("{} takes a text of at least one token; found an empty one", o.source ? "--source" : "TEXT"));
  check_page_name("--output", o.output);
  if (o.force && !o.wants_page(context.json))
    throw UsageError("--force is for a page of more than 20 MB; this command writes no page (--output names one)");
  const std::string page = o.wants_page(context.json) ? o.page() : "";
  require_apart({{"--text", o.strongest ? "-" : ""},
                 {"--json", context.json ? "-" : ""},
                 {"--output", page},
                 {"--svg", o.svg},
                 {"--png", o.png},
                 {"--head-json", o.head_json}});
  if (o.chooses_head() && !o.wants_head())
    throw UsageError(
        "--part, --layer and --head choose one head for --text, --svg, --png or --head-json; found none of "
        "these (a page has all heads; #cross/3/mean at the end of its address opens one)");
  require_writable({page, o.svg, o.png, o.head_json});
}

std::string instead_of_page(const InspectCommand& o) {
  return fmt::format("use a shorter text, {}or one head (--part, --layer, --head with --png or --text)",
                     o.words ? "" : "groups of tokens (--pool N), ");
}

// Of a record that is there: how many weights a page of words has is known after the words.
void check_page_of(const inspect::Record& record, const std::string& instead) {
  int64_t weights = 0, masked = 0;
  for (const auto* const part : {&record.encoder, &record.decoder, &record.cross})
    for (const inspect::Map& map : *part) weights += map.weights.numel();
  for (const inspect::Map& map : record.decoder) {
    const int64_t length = map.weights.size(1);
    masked += map.weights.size(0) * (length * (length - 1) / 2);
  }
  check_page_size(weights, masked, instead);
}

inspect::Record record_of(const InspectCommand& o, Context& context) {
  const char* const translating = o.target                     ? "--target is"
                                  : o.beam                     ? "--beam is"
                                  : !o.source_language.empty() ? "--source-language is"
                                  : !o.target_language.empty() ? "--target-language is"
                                                               : nullptr;
  if (translating != nullptr) {
    const models::Architecture found = architecture_of(o.model);
    if (found != models::Architecture::encoder_decoder)
      throw UsageError(fmt::format("{} for models that translate; this one {}", translating,
                                   found == models::Architecture::decoder_only ? "continues texts" : "only reads"));
  }
  TextWarnings warnings([&o](int64_t place) {
    return std::string(place == 1 ? "--target" : o.source ? "--source" : "TEXT");
  });
  RecordOptions options{.target = o.target,
                        .search = {.beam = o.beam.value_or(kUsualBeam)},
                        .source_language = o.source_language,
                        .target_language = o.target_language,
                        .text = warnings.options(o.too_long)};
  const bool checks_page = o.wants_page(context.json) && !o.force;
  if (o.pool) {
    options.pool_above = options.most_groups = *o.pool;
  } else if (checks_page && !context.json && !o.words) {  // JSON has all weights, unless groups are asked for
    options.pool_above = inspect::kMostTokens;
    options.on_pooled = [&](int64_t tokens, int64_t groups) {
      message(context,
              fmt::format("{} tokens are shown in {} groups; --pool chooses how many", with_commas(tokens), groups));
    };
  }
  if (checks_page) {
    options.on_size = [&o](int64_t weights, int64_t masked) {
      // How many words there are is known later; but the weights between all tokens must fit into memory.
      if (!o.words || weights > inspect::kMostWeights) check_page_size(weights, masked, instead_of_page(o));
    };
  }
  inspect::Record record = record_attention(o.model, o.source ? *o.source : *o.text, options);
  record.output = one_line(std::move(record.output));
  if (!o.words) return record;
  inspect::Record words = inspect::by_words(record);
  if (checks_page) check_page_of(words, instead_of_page(o));
  return words;
}

// The name of the folder and of the one it is in, "demo/en-zh", however the path is written.
std::string title_of(const std::string& model) {
  std::filesystem::path path = std::filesystem::absolute(model).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return (path.parent_path().filename() / path.filename()).string();
}

struct ChosenHead {
  Tensor weights;  // (L, S)
  std::vector<std::string> rows, columns;
  std::vector<std::string>
      labels;  // of the rows in a picture: the token that a decoder read and the token it said there
  std::string title;
};

Tensor mean_over_heads(const Tensor& weights) {
  const Tensor mean = Tensor::zeros({weights.size(1), weights.size(2)});
  for (int64_t h = 0; h < weights.size(0); ++h)
    for (int64_t i = 0; i < mean.numel(); ++i)
      mean.data<float>()[i] += weights.data<float>()[h * mean.numel() + i] / static_cast<float>(weights.size(0));
  return mean;
}

Part chosen_part(const InspectCommand& o, const inspect::Record& record) {
  if (o.part != Part::automatic) return o.part;
  return !record.cross.empty() ? Part::cross : !record.decoder.empty() ? Part::decoder : Part::encoder;
}

// The part, layer and head (from 0; -1 is the mean) that are asked for. Where one is left open, the most telling of
// those that remain.
inspect::Place choose_place(const InspectCommand& o, const inspect::Record& record, inspect::Part part,
                            const std::vector<inspect::Map>& maps) {
  const auto layers = static_cast<int64_t>(maps.size());
  const int64_t heads = maps[0].weights.size(0);
  if (o.layer && *o.layer > layers)
    throw UsageError(fmt::format("--layer takes a number from 1 to {}; found {}", layers, *o.layer));
  std::optional<int64_t> wanted;  // as telling_scores() has them: the mean is the last
  if (o.head == "mean") {
    wanted = heads;
  } else if (o.head) {
    int64_t head = 0;
    const char* const wanted_end = o.head->data() + o.head->size();
    const auto [end, error] = std::from_chars(o.head->data(), wanted_end, head);
    if (error != std::errc() || end != wanted_end || head < 1 || head > heads)
      throw UsageError(fmt::format("--head takes a number from 1 to {}, or mean; found {}", heads, in_quotes(*o.head)));
    wanted = head - 1;
  }
  const auto scores = inspect::telling_scores(record, part);
  inspect::Place best{.part = part, .layer = 0, .head = 0, .score = -1};
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (o.layer && layer != *o.layer - 1) continue;
    for (int64_t head = 0; head <= heads; ++head) {
      const double score = scores[static_cast<size_t>(layer)][static_cast<size_t>(head)];
      if ((wanted && head != *wanted) || score <= best.score) continue;
      best = {.part = part, .layer = layer, .head = head == heads ? -1 : head, .score = score};
    }
  }
  return best;
}

ChosenHead choose_head(const InspectCommand& o, const inspect::Record& record) {
  const Part part = chosen_part(o, record);
  const char* const name = part == Part::encoder ? "encoder" : part == Part::decoder ? "decoder" : "cross";
  const std::vector<inspect::Map>& maps = part == Part::encoder   ? record.encoder
                                          : part == Part::decoder ? record.decoder
                                                                  : record.cross;
  if (maps.empty()) throw UsageError(fmt::format("--part {}: this model has no such attention", name));
  const inspect::Place place = choose_place(o, record,
                                            part == Part::encoder   ? inspect::Part::encoder
                                            : part == Part::decoder ? inspect::Part::decoder
                                                                    : inspect::Part::cross,
                                            maps);
  const Tensor weights = maps[static_cast<size_t>(place.layer)].weights;
  ChosenHead chosen{.weights = place.head < 0 ? mean_over_heads(weights) : weights.select(0, place.head),
                    .rows = part == Part::encoder ? record.source_tokens : record.target_tokens,
                    .columns = part == Part::decoder ? record.target_tokens : record.source_tokens,
                    .labels = {},
                    .title = fmt::format("{} attention, layer {}, ", name, place.layer + 1)};
  chosen.title += place.head < 0 ? "mean over heads" : fmt::format("head {}", place.head + 1);
  chosen.labels = chosen.rows;
  if (part != Part::encoder) {
    for (size_t i = 0; i < chosen.labels.size(); ++i) chosen.labels[i] += " → " + record.output_tokens[i];
  }
  return chosen;
}

void write_head(const InspectCommand& o, const ChosenHead& head, Context& context) {
  const auto write = [&](const std::string& file, const std::string& contents) {
    write_result(file, contents);
    if (!o.fills_output(context.json)) print_line(file);
  };
  const bool found = !o.layer || !o.head;
  message(context, head.title + (found ? " (the most telling; --layer and --head choose another)" : ""));
  if (o.strongest) print(inspect::to_text(head.weights, head.labels, head.columns));
  if (!o.svg.empty()) write(o.svg, inspect::to_svg(head.weights, head.labels, head.columns, head.title));
  if (!o.png.empty()) {
    write(o.png, inspect::to_png(head.weights, pixels_of_a_weight(head.weights.size(0), head.weights.size(1))));
  }
  if (!o.head_json.empty()) write(o.head_json, inspect::to_json(head.weights, head.rows, head.columns, head.title));
}

int run_inspect(const InspectCommand& o, Context& context) {
  check_options(o, context);
  inspect::Record record = record_of(o, context);
  record.title = title_of(o.model);
  std::optional<ChosenHead> head;  // a layer or head that is not there ends the command before anything is written
  if (o.wants_head()) head = choose_head(o, record);
  if (!record.cross.empty()) message(context, record.output);
  if (head) write_head(o, *head, context);
  if (context.json) print(inspect::to_json(record));
  if (o.wants_page(context.json)) {
    const std::string file = o.page();
    write_page(file, inspect::to_html(record), context);
    if (file == "-") return kSuccess;
    message(context, "The page is written; open it in a browser:");
    if (!o.fills_output(context.json)) print_line(file);
  }
  return kSuccess;
}

}  // namespace

void add_inspect_command(Options& options) {
  auto o = std::make_shared<InspectCommand>();
  options.add("MODEL", o->model, "Folder of a model, or its name in Hugging Face's cache").takes("DIR").required();
  options.add("TEXT", o->text, "The text that the model reads");
  options.add("--source", o->source, "The same as an option");
  options.add("--target", o->target, "What the model says; without it, the model translates");
  options.add("--output", o->output, "The page, .html; - is standard output")
      .takes("FILE")
      .shows("attention.html, unless only one head is asked for");
  options.flag(
      "--words", o->words,
      "Words in place of tokens: what attends to the pieces of a word is added, and their own attention averaged");
  options
      .add("--pool", o->pool,
           "Take neighbouring tokens together, so that a map has at most so many rows and columns: what attends to the "
           "tokens of a group is added, and their own attention averaged")
      .range(1, 4096)
      .shows("256 on pages of more than 1,024 tokens, or what 20 MB can hold")
      .excludes({"--words"});
  options.flag("--force", o->force, "Write a page of more than 20 MB too");
  options.add("--beam", o->beam, "Hypotheses to keep while translating")
      .range(1, 1000)
      .shows(std::to_string(kUsualBeam))
      .excludes({"--target"});
  options
      .add("--source-language", o->source_language,
           "The language of the text, for models of several languages, as the vocabulary spells it")
      .takes("CODE");
  options.add("--target-language", o->target_language, "The language of the model's output").takes("CODE");
  options.choose("--too-long", o->too_long, {{"cut", TooLong::cut}, {"refuse", TooLong::refuse}},
                 "What to do with a text that is longer than the model can read");
  options.group("One head");
  options
      .choose("--part", o->part, {{"encoder", Part::encoder}, {"decoder", Part::decoder}, {"cross", Part::cross}},
              "Which attention")
      .shows("the last of these that the model has");
  options.add("--layer", o->layer, "Which layer, counted from 1").range(1).shows("that of the most telling head");
  options.add("--head", o->head, "Which head, counted from 1, or mean").takes("N").shows("the most telling one");
  options.flag("--text", o->strongest, "Write each token's strongest weights to standard output");
  options.add("--svg", o->svg, "Draw the head with its tokens").takes("FILE");
  options.add("--png", o->png, "Draw the head's cells").takes("FILE");
  options.add("--head-json", o->head_json, "Write the head's weights and tokens").takes("FILE");
  options.footer(
      "The page is one file: it needs no network and works from disk.\n"
      "With --json, all weights go to standard output.\n"
      "Examples:\n"
      "  heed inspect demo/en-zh 'Where is the station?' --output page.html\n"
      "  heed inspect demo/en-zh 'Where is the station?' --target '车站在哪里？' --output page.html\n"
      "  heed inspect demo/en-zh 'Where is the station?' --part cross --layer 3 --head mean --text\n");
  options.has_json();
  options.on_run([o](Context& c) { return run_inspect(*o, c); });
}

}  // namespace heed::cli
