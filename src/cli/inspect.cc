// heed inspect: a page that shows a model's attention for one sentence.
#include "heed/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "cli/command.h"
#include "cli/model_folder.h"
#include "heed/error.h"
#include "heed/io.h"

namespace heed::cli {
namespace {

enum class Part { automatic, encoder, decoder, cross };

struct InspectCommand {
  std::string model;
  std::string source;
  std::optional<std::string> target;
  std::string output, svg, png, head_json;
  bool text = false;
  Part part = Part::automatic;
  int64_t layer = 1;
  std::string head = "1";  // or "mean"
  int64_t beam = 5;

  [[nodiscard]] bool wants_head() const { return text || !svg.empty() || !png.empty() || !head_json.empty(); }
};

using Ids = std::vector<int32_t>;

std::vector<std::string> pieces(const text::Tokenizer& tokenizer, const Ids& ids) {
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(tokenizer.piece(id));
  return out;
}

// One row, (1, L) i32.
Tensor as_row(const Ids& ids) {
  return Tensor::from(std::span<const int32_t>(ids), {1, static_cast<int64_t>(ids.size())});
}

Tensor length_of(const Ids& ids) {
  const auto length = static_cast<int32_t>(ids.size());
  return Tensor::from(std::span<const int32_t>(&length, 1), {1});
}

// The likeliest token after each position: logits (1, L, V).
Ids likeliest(const Tensor& logits) {
  Ids out;
  const Tensor rows = logits.contiguous();
  for (int64_t i = 0; i < rows.size(1); ++i) {
    const float* row = rows.data<float>() + i * rows.size(2);
    out.push_back(static_cast<int32_t>(std::max_element(row, row + rows.size(2)) - row));
  }
  return out;
}

void require_text(const Ids& ids) {
  if (ids.empty()) throw UsageError("--source takes a text of at least one token; found an empty one");
}

inspect::Record record_translation(const InspectCommand& o, Context& context) {
  const TranslationModel m = load_translation_model(o.model);
  const int64_t longest = m.model->config().max_length;
  const Ids source = encode_source(m, o.source, TooLong::refuse, "--source");
  require_text(source);
  Ids target;
  if (o.target) {
    target = encode_line(*m.target, *o.target, longest - 1, TooLong::refuse, "--target");
  } else {
    const auto found = generate::translate(*m.model, std::span(&source, 1), {.search = {.beam = o.beam}});
    target = found.at(0).at(0).ids;
  }
  const text::SpecialIds special = m.target->special();
  Ids read = {special.begin}, said = target;
  read.insert(read.end(), target.begin(), target.end());
  said.push_back(special.end);

  inspect::Record record;
  record.source = o.source;
  record.output = one_line(o.target ? *o.target : m.target->decode(target));
  record.source_tokens = pieces(*m.source, source);
  record.target_tokens = pieces(*m.target, read);
  record.output_tokens = pieces(*m.target, said);
  inspect::Recorder recorder;
  {
    const nn::ObserverScope scope(recorder);
    (void)m.model->forward(as_row(source), length_of(source), as_row(read));
  }
  recorder.move_into(record);
  message(context, record.output);
  return record;
}

inspect::Record record_text(const InspectCommand& o) {
  const TextModel m = load_text_model(o.model);
  const Ids ids = encode_line(*m.tokenizer, o.source, m.model->config().max_length, TooLong::refuse, "--source");
  require_text(ids);
  inspect::Record record;
  record.source = o.source;
  record.target_tokens = pieces(*m.tokenizer, ids);
  inspect::Recorder recorder;
  {
    const nn::ObserverScope scope(recorder);
    record.output_tokens = pieces(*m.tokenizer, likeliest(m.model->forward(as_row(ids)).data()));
  }
  recorder.move_into(record);
  return record;
}

inspect::Record record_encoder(const InspectCommand& o) {
  const std::unique_ptr<models::Model> owner = models::load(o.model);
  const auto& model = dynamic_cast<const models::Bert&>(*owner);
  const auto tokenizer = text::Tokenizer::load(o.model, text::Side::source);
  const int64_t vocabulary = model.config().source_vocabulary;
  if (tokenizer->vocabulary() != vocabulary)
    throw Error(fmt::format("{}: the tokenizer has {} tokens where the model has {}", o.model, tokenizer->vocabulary(),
                            vocabulary));
  const Ids text = encode_line(*tokenizer, o.source, model.config().max_length - 2, TooLong::refuse, "--source");
  require_text(text);
  Ids ids = {tokenizer->special().begin};  // as in training: between begin and end
  ids.insert(ids.end(), text.begin(), text.end());
  ids.push_back(tokenizer->special().end);
  inspect::Record record;
  record.source = o.source;
  record.source_tokens = pieces(*tokenizer, ids);
  inspect::Recorder recorder;
  {
    const nn::ObserverScope scope(recorder);
    (void)model.encode(as_row(ids), length_of(ids));
  }
  recorder.move_into(record);
  return record;
}

inspect::Record record_of(const InspectCommand& o, Context& context) {
  const NoGradScope no_grad;
  const std::filesystem::path config = std::filesystem::path(o.model) / "config.json";
  const models::Architecture architecture =
      models::config_from_json(io::read_file(config, int64_t{1} << 20), config.string()).architecture;
  if (architecture == models::Architecture::encoder_decoder) return record_translation(o, context);
  if (o.target) throw UsageError("--target is for models that translate; this one reads --source only");
  return architecture == models::Architecture::decoder_only ? record_text(o) : record_encoder(o);
}

// "en-zh" of any way to write the path, with the folder it is in: "demo/en-zh".
std::string title_of(const std::string& model) {
  std::filesystem::path path = std::filesystem::absolute(model).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return (path.parent_path().filename() / path.filename()).string();
}

struct ChosenHead {
  Tensor weights;  // (L, S)
  std::vector<std::string> rows, columns;
  std::vector<std::string> labels;  // of the rows in a drawing: what a decoder read, and what it said there
  std::string title;
};

Tensor mean_over_heads(const Tensor& weights) {
  const Tensor mean = Tensor::zeros({weights.size(1), weights.size(2)});
  for (int64_t h = 0; h < weights.size(0); ++h)
    for (int64_t i = 0; i < mean.numel(); ++i)
      mean.data<float>()[i] += weights.data<float>()[h * mean.numel() + i] / static_cast<float>(weights.size(0));
  return mean;
}

ChosenHead choose_head(const InspectCommand& o, const inspect::Record& record) {
  const std::map<Part, std::pair<const char*, const std::vector<inspect::Map>*>> parts = {
      {Part::encoder, {"encoder", &record.encoder}},
      {Part::decoder, {"decoder", &record.decoder}},
      {Part::cross, {"cross", &record.cross}}};
  Part part = o.part;
  if (part == Part::automatic)
    part = !record.cross.empty() ? Part::cross : !record.decoder.empty() ? Part::decoder : Part::encoder;
  const auto& [name, maps] = parts.at(part);
  if (maps->empty()) throw UsageError(fmt::format("--part {}: this model has no such attention", name));
  const auto layers = static_cast<int64_t>(maps->size());
  if (o.layer < 1 || o.layer > layers)
    throw UsageError(fmt::format("--layer takes a number from 1 to {}; found {}", layers, o.layer));
  const Tensor weights = (*maps)[static_cast<size_t>(o.layer - 1)].weights;
  ChosenHead chosen{.weights = {},
                    .rows = part == Part::encoder ? record.source_tokens : record.target_tokens,
                    .columns = part == Part::decoder ? record.target_tokens : record.source_tokens,
                    .labels = {},
                    .title = fmt::format("{} attention, layer {}, ", name, o.layer)};
  chosen.labels = chosen.rows;
  if (part != Part::encoder) {
    for (size_t i = 0; i < chosen.labels.size(); ++i) chosen.labels[i] += " → " + record.output_tokens[i];
  }
  if (o.head == "mean") {
    chosen.weights = mean_over_heads(weights);
    chosen.title += "mean over heads";
    return chosen;
  }
  int64_t head = 0;
  const auto [end, error] = std::from_chars(o.head.data(), o.head.data() + o.head.size(), head);
  if (error != std::errc() || end != o.head.data() + o.head.size() || head < 1 || head > weights.size(0))
    throw UsageError(fmt::format("--head takes a number from 1 to {}, or mean; found {}", weights.size(0),
                                 inspect::escape_terminal(o.head)));
  chosen.weights = weights.select(0, head - 1);
  chosen.title += fmt::format("head {}", head);
  return chosen;
}

int run_inspect(const InspectCommand& o, Context& context) {
  inspect::Record record = record_of(o, context);
  record.title = title_of(o.model);
  if (o.wants_head()) {
    const ChosenHead head = choose_head(o, record);
    const auto write = [&](const std::string& file, const std::string& contents) {
      io::write_file_atomically(file, contents);
      if (!o.text) print_line(file);
    };
    if (o.text) {
      message(context, head.title);
      print(inspect::to_text(head.weights, head.labels, head.columns));
    }
    if (!o.svg.empty()) write(o.svg, inspect::to_svg(head.weights, head.labels, head.columns, head.title));
    if (!o.png.empty()) write(o.png, inspect::to_png(head.weights));
    if (!o.head_json.empty()) write(o.head_json, inspect::to_json(head.weights, head.rows, head.columns, head.title));
  }
  if (context.json) print(inspect::to_json(record));
  const bool wants_page = !o.output.empty() || (!o.wants_head() && !context.json);
  if (wants_page) {
    const std::string file = o.output.empty() ? "attention.html" : o.output;
    const std::string page = inspect::to_html(record);
    if (const std::string warning = inspect::large_page_warning(page); !warning.empty()) message(context, warning);
    io::write_file_atomically(file, page);
    message(context, "The page is written; open it in a browser:");
    if (!o.text && !context.json) print_line(file);
  }
  return kSuccess;
}

}  // namespace

void add_inspect_command(CLI::App& command, Context& context) {
  auto o = std::make_shared<InspectCommand>();
  command.add_option("model", o->model, "Folder of a model")->required()->type_name("MODEL");
  command.add_option("--source", o->source, "The text to read")->required()->type_name("TEXT");
  command.add_option("--target", o->target, "What to say; without it the model translates")->type_name("TEXT");
  command.add_option("--output", o->output, "The page (default: attention.html, unless only one head is asked for)")
      ->type_name("FILE");
  command.add_option("--beam", o->beam, "Hypotheses kept while translating")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  const char* group = "One head";
  command.add_option("--part", o->part, "Which attention")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, Part>{
                                      {"encoder", Part::encoder}, {"decoder", Part::decoder}, {"cross", Part::cross}})
              .description(""))
      ->type_name("encoder|decoder|cross")
      ->group(group);
  command.add_option("--layer", o->layer, "Counted from 1")->capture_default_str()->group(group);
  command.add_option("--head", o->head, "Counted from 1, or mean")->capture_default_str()->group(group);
  command.add_flag("--text", o->text, "Write each token's strongest weights to standard output")->group(group);
  command.add_option("--svg", o->svg, "Draw it with its tokens")->type_name("FILE")->group(group);
  command.add_option("--png", o->png, "Draw its cells")->type_name("FILE")->group(group);
  command.add_option("--head-json", o->head_json, "Write its weights and tokens")->type_name("FILE")->group(group);
  command.footer(
      "The page is one file: no network, works from disk. With --json, all weights go to standard output.\n"
      "Examples:\n"
      "  heed inspect demo/en-zh --source 'Where is the station?' --output page.html\n"
      "  heed inspect demo/en-zh --source 'Where is the station?' --target '车站在哪里？' --output page.html\n"
      "  heed inspect demo/en-zh --source 'Where is the station?' --part cross --layer 3 --head mean --text\n");
  context.on_run(command, [o](Context& c) { return run_inspect(*o, c); });
}

}  // namespace heed::cli
