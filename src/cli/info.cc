// heed info: this machine and the kernels chosen for it, or a model and what it costs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <ranges>
#include <sstream>

#include "cli/command.h"
#include "cli/json.h"
#include "formats/json.h"
#include "formats/weights.h"
#include "heed/cpu.h"
#include "heed/distributed.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/models.h"
#include "models/families/classifier.h"
#include "models/weights.h"
#include "pipelines/sentence_modules.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

struct InfoCommand {
  std::string model;
  int64_t batch = 1;
  std::optional<int64_t> source_length, target_length, vocabulary;
};

// Names and versions of heed and of the libraries that the build found.
std::vector<std::pair<std::string, std::string>> versions() {
  std::vector<std::pair<std::string, std::string>> result = {{"heed", HEED_VERSION}};
  std::string_view all = HEED_LIBRARIES;  // "name version;name version"
  while (!all.empty()) {
    const size_t end = std::min(all.find(';'), all.size());
    const std::string_view one = all.substr(0, end);
    const size_t space = one.find(' ');
    if (space != std::string_view::npos) result.emplace_back(one.substr(0, space), one.substr(space + 1));
    all.remove_prefix(std::min(end + 1, all.size()));
  }
  return result;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const Isa isa : available_isas()) names.emplace_back(to_string(isa));
  return names;
}

std::string machine_json() {
  const CpuInfo& cpu = cpu_info();
  JsonObject libraries;
  for (const auto& [name, version] : versions()) libraries.add(name, version);
  JsonObject object;
  object.add("processor", cpu.model).add("cores", cpu.cores).add("threads", num_threads());
  object.add("l1_bytes", cpu.l1_bytes).add("l2_bytes", cpu.l2_bytes).add("l3_bytes", cpu.l3_bytes);
  object.add("features", cpu.features).add("kernels", to_string(active_isa()));
  object.add("processes", distributed::engine_found());
  return object.add("kernels_available", kernel_names()).add("versions", libraries).text() + "\n";
}

std::string words_of_list(const std::vector<std::string>& list, const char* between) {
  std::string out;
  for (const std::string& item : list) out += (out.empty() ? "" : between) + item;
  return out;
}

std::string machine_text() {
  const CpuInfo& cpu = cpu_info();
  std::string out;
  const auto row = [&](const char* name, const std::string& value) { out += fmt::format("{:<12}{}\n", name, value); };
  row("processor", cpu.model);
  row("cores", std::to_string(cpu.cores));
  row("threads", std::to_string(num_threads()));
  row("caches",
      fmt::format("L1 {}, L2 {}, L3 {}", bytes_text(cpu.l1_bytes), bytes_text(cpu.l2_bytes), bytes_text(cpu.l3_bytes)));
  row("features", words_of_list(cpu.features, " "));
  row("kernels", fmt::format("{} (available: {}; HEED_ISA chooses)", to_string(active_isa()),
                             words_of_list(kernel_names(), ", ")));
  row("processes", distributed::engine_found());
  std::vector<std::string> libraries;
  for (const auto& [name, version] : versions()) libraries.push_back(name + " " + version);
  row("versions", words_of_list(libraries, ", "));
  return out;
}

// What a folder, a configuration file or the name of a preset says.
struct ModelFacts {
  models::Config config;
  std::string family = {};                      // of a folder that others wrote
  std::string licence = {};                     // of a folder; empty: not said
  int64_t parameters = 0;                       // of a folder
  std::map<std::string, int64_t> weights = {};  // bytes of each type in a folder
  bool finds_answers = false;                   // its head tells where an answer begins and ends
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kAround = " \t\r'\"";
  const size_t begin = std::min(text.find_first_not_of(kAround), text.size());
  return text.substr(begin, text.find_last_not_of(kAround) + 1 - begin);
}

// "license" in the front matter of a model card: a word, folded text, or a list in brackets or on lines of their own.
std::string licence_in(const fs::path& card) {
  constexpr int64_t kLimit = int64_t{1} << 24;
  constexpr std::string_view kKey = "license:";
  std::error_code ignored;
  if (!fs::is_regular_file(card, ignored)) return {};
  std::istringstream lines(io::read_file(card, kLimit));
  std::string line, found;
  if (!std::getline(lines, line) || !line.starts_with("---")) return {};
  const auto add = [&](std::string_view item, std::string_view between) {
    item = trimmed(item.substr(0, item.find(" #")));
    if (!item.empty()) found += std::string(found.empty() ? "" : between) + std::string(item);
  };
  enum class Inside { nothing, list, text } inside = Inside::nothing;  // of the key
  while (std::getline(lines, line) && !line.starts_with("---")) {
    const std::string_view words = trimmed(line);
    if (words.empty() || words.front() == '#') continue;
    if (line.starts_with(kKey)) {
      std::string_view rest = trimmed(std::string_view(line).substr(kKey.size()));
      inside = rest.empty()                                 ? Inside::list
               : rest.front() == '>' || rest.front() == '|' ? Inside::text
                                                            : Inside::nothing;
      if (inside != Inside::nothing) continue;
      if (rest.front() == '[') rest = rest.substr(1, rest.find(']') - 1);
      for (const auto item : std::views::split(rest, ',')) add(std::string_view(item.begin(), item.end()), ", ");
    } else if (inside == Inside::list && words.starts_with("- ")) {
      add(words.substr(2), ", ");
    } else if (inside == Inside::text && line.starts_with(' ')) {
      add(words, " ");
    } else {
      inside = Inside::nothing;
    }
  }
  return found;
}

// Throws where something is wrong with the weights.
ModelFacts facts_of_folder(const fs::path& path) {
  const fs::path folder = pipelines::SentenceModules::encoder_folder(path);
  models::require_model_folder(folder, "info");
  const std::unique_ptr<models::Model> model = models::load(folder);
  ModelFacts facts{.config = model->config()};
  facts.finds_answers = models::finds_answers(*model);
  for (const auto& [name, value] : model->named_parameters()) facts.parameters += value.data().numel();
  std::vector<fs::path> files = {"model.safetensors"};
  std::error_code ignored;
  if (!fs::exists(folder / files[0], ignored)) {
    files = io::safetensors_shards(folder);  // and their index
    std::erase_if(files, [](const fs::path& file) { return file.extension() != ".safetensors"; });
  }
  for (const fs::path& file : files)
    for (const auto& [name, tensor] : io::read_safetensors(folder / file).tensors)
      facts.weights[tensor.dtype() == DType::i8 ? "int8" : std::string(to_string(tensor.dtype()))] += tensor.nbytes();
  for (const char* const card : {"README.md", "MODEL_CARD.md"})
    if (facts.licence.empty()) facts.licence = licence_in(path / card);
  if (model->origin() == nullptr) return facts;
  const io::ParsedJson config = io::parse_json(io::read_file(folder / "config.json", 1 << 20));
  facts.family = config.value.value("model_type", "");
  return facts;
}

constexpr std::array<std::string_view, 4> kPresets = {"tiny", "small", "base", "big"};
constexpr int64_t kUsualVocabulary = 32000;  // of a preset
constexpr int64_t kUsualLength = 64;         // tokens of a side

ModelFacts find_facts(const InfoCommand& o) {
  fs::path path = o.model;
  std::error_code ignored;
  const bool may_be_name = path.is_relative() && path.has_parent_path() && !fs::exists(path, ignored);
  if (may_be_name) path = io::find_model_folder(o.model);
  if (!fs::exists(path, ignored) && std::ranges::find(kPresets, o.model) != kPresets.end()) {
    models::Config config = models::preset(o.model);
    config.source_vocabulary = config.target_vocabulary = o.vocabulary.value_or(kUsualVocabulary);
    return {config};
  }
  if (o.vocabulary && fs::exists(path, ignored))
    throw UsageError(fmt::format("--vocabulary is for a preset ({}); found the model {}", fmt::join(kPresets, ", "),
                                 in_quotes(o.model)));
  if (fs::is_directory(path, ignored)) return facts_of_folder(path);
  if (fs::exists(path, ignored)) {
    if (path.extension() == ".safetensors" || path.extension() == ".bin")
      throw Error(fmt::format("expected the folder of a model or its config.json; found the weights {}",
                              in_quotes(path.string())));
    const std::string text = io::read_file(path, 1 << 20);
    // The file of others leaves open what only the weights beside it tell.
    const io::Json config = io::parse_json(text).value;
    if (config.is_object() && config.contains("model_type")) {
      const fs::path folder = fs::absolute(path).parent_path();
      const auto has = [&](const char* name) { return fs::exists(folder / name, ignored); };
      if (path.filename() != "config.json" || (!has("model.safetensors") && !has("model.safetensors.index.json")))
        throw Error(
            fmt::format("{}: expected the config.json of a folder with its weights, which say what a file of "
                        "Hugging Face leaves open; found none beside it",
                        in_quotes(path.string())));
      return facts_of_folder(folder);
    }
    return {models::config_from_json(text, path.string())};
  }
  try {
    path = io::find_model_folder(o.model);  // a name of one word
  } catch (const Error& error) {
    const std::string_view why = error.what();
    const size_t download = why.find("Download it with");
    throw Error(
        fmt::format("expected the folder of a model, its name in Hugging Face's cache, a config.json or a preset ({}); "
                    "found {}{}{}",
                    fmt::join(kPresets, ", "), in_quotes(o.model), download == why.npos ? "" : ". ",
                    download == why.npos ? "" : why.substr(download)));
  }
  return facts_of_folder(path);
}

std::string flops_text(int64_t flops) {
  const double f = static_cast<double>(flops);
  return f >= 1e12  ? fmt::format("{:.2f} TFLOP", f / 1e12)
         : f >= 1e9 ? fmt::format("{:.2f} GFLOP", f / 1e9)
                    : fmt::format("{:.2f} MFLOP", f / 1e6);
}

// A table of the keys and values of a JSON object, without those of a part that is `absent`.
std::string keys_and_values(std::string_view json, const std::vector<std::string_view>& absent) {
  std::string out;
  const io::Json object = io::parse_json(json).value;
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(absent, name) != absent.end()) continue;
    std::string shown = value.is_string() ? value.get<std::string>() : io::json_text(value);
    if (value.is_array()) {
      shown.clear();
      for (const io::Json& one : value) {
        shown += (shown.empty() ? "" : ", ") + (one.is_string() ? one.get<std::string>() : io::json_text(one));
      }
    }
    out += fmt::format("{:<20}{}\n", name, escaped(shown));
  }
  return out;
}

std::vector<std::string_view> absent_keys(models::Architecture architecture) {
  switch (architecture) {
    case models::Architecture::encoder_decoder: return {};
    case models::Architecture::decoder_only: return {"source_vocabulary", "encoder_layers"};
    case models::Architecture::encoder_only: return {"target_vocabulary", "decoder_layers"};
  }
  return {};
}

std::string without_line_ends(std::string text) {
  std::erase(text, '\n');
  return text;
}

// Throws where a length is given of a side that models of this architecture lack.
void check_lengths(const InfoCommand& o, models::Architecture architecture) {
  if (o.target_length && architecture == models::Architecture::encoder_only)
    throw UsageError("--target-length is for models that write; an encoder reads --source-length tokens");
  if (o.source_length && architecture == models::Architecture::decoder_only)
    throw UsageError("--source-length is for models with an encoder; a decoder has --target-length tokens");
}

void print_model(const InfoCommand& o, const Context& context) {
  const ModelFacts facts = find_facts(o);
  const models::Config& config = facts.config;
  check_lengths(o, config.architecture);
  const int64_t source_length = o.source_length.value_or(kUsualLength),
                target_length = o.target_length.value_or(kUsualLength);
  models::Cost cost = models::cost(config, o.batch, source_length, target_length);
  if (facts.parameters > 0) {
    cost.parameters = facts.parameters;
    cost.parameter_bytes = facts.parameters * static_cast<int64_t>(sizeof(float));
  }
  const std::string configuration = models::to_json(config);  // one key a line
  if (context.json) {
    JsonObject object;
    if (!facts.family.empty()) object.add("family", facts.family);
    if (!facts.licence.empty()) object.add("licence", facts.licence);
    if (facts.finds_answers) object.add("finds_answers", true);
    object.add_json("config", without_line_ends(configuration));
    object.add("batch", o.batch).add("source_length", source_length).add("target_length", target_length);
    object.add("parameters", cost.parameters).add("parameter_bytes", cost.parameter_bytes);
    JsonObject weights;
    for (const auto& [dtype, bytes] : facts.weights) weights.add(dtype, bytes);
    if (!facts.weights.empty()) object.add("weight_bytes", weights);
    object.add("forward_flops", cost.forward_flops).add("training_flops", cost.training_flops);
    print_line(object.add("activation_bytes", cost.activation_bytes).text());
    return;
  }
  std::string out;
  if (!facts.family.empty()) out += fmt::format("{:<20}{}\n", "family", escaped(facts.family));
  if (!facts.licence.empty()) out += fmt::format("{:<20}{}\n", "licence", escaped(facts.licence));
  std::vector<std::string_view> absent = absent_keys(config.architecture);
  if (facts.finds_answers) absent.emplace_back("head");
  out += keys_and_values(configuration, absent);
  if (facts.finds_answers) out += fmt::format("{:<20}{}\n", "head", "answers");
  out += fmt::format("\n{:<20}{} ({})\n", "parameters", with_commas(cost.parameters), bytes_text(cost.parameter_bytes));
  std::string weights;
  for (const auto& [dtype, bytes] : facts.weights)
    weights += fmt::format("{}{} {}", weights.empty() ? "" : ", ", dtype, bytes_text(bytes));
  if (!weights.empty()) out += fmt::format("{:<20}{}\n", "in the folder", weights);
  const std::string shape =
      config.architecture == models::Architecture::encoder_decoder
          ? fmt::format("{} x {} source and {} target tokens", o.batch, source_length, target_length)
          : fmt::format("{} x {} tokens", o.batch,
                        config.architecture == models::Architecture::decoder_only ? target_length : source_length);
  out += fmt::format("for {}:\n", shape);
  out += fmt::format("{:<20}{} ({})\n", "  forward", flops_text(cost.forward_flops), with_commas(cost.forward_flops));
  out += fmt::format("{:<20}{}\n", "  training", flops_text(cost.training_flops));
  out += fmt::format("{:<20}{} kept for the backward pass, about\n", "  memory", bytes_text(cost.activation_bytes));
  print(out);
}

int run_info(const InfoCommand& o, Context& context) {
  if (!o.model.empty()) {
    print_model(o, context);
  } else {
    print(context.json ? machine_json() : machine_text());
  }
  return kSuccess;
}

}  // namespace

void add_info_command(Options& options) {
  auto o = std::make_shared<InfoCommand>();
  options.add(
      "MODEL", o->model,
      "Folder of a model or its name in Hugging Face's cache, a config.json, or a preset: tiny, small, base, big");
  options.add("--batch", o->batch, "Sentences in the batch whose cost is computed").range(1).needs("MODEL");
  options.add("--source-length", o->source_length, "Source tokens of each")
      .range(1)
      .needs("MODEL")
      .shows(std::to_string(kUsualLength));
  options.add("--target-length", o->target_length, "Target tokens of each")
      .range(1)
      .needs("MODEL")
      .shows(std::to_string(kUsualLength));
  options.add("--vocabulary", o->vocabulary, "Tokens of a preset's vocabulary")
      .range(1)
      .needs("MODEL")
      .shows(std::to_string(kUsualVocabulary));
  options.footer(
      "A multiply-add counts as two operations.\n"
      "Examples:\n"
      "  heed info\n"
      "  heed info sentence-transformers/all-MiniLM-L6-v2\n"
      "  heed info demo/en-zh --batch 32 --source-length 20 --target-length 20\n"
      "  heed info base --json\n");
  options.has_json();
  options.on_run([o](Context& c) { return run_info(*o, c); });
}

}  // namespace heed::cli
