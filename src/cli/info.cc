// heed info: the machine and what was chosen for it; or a model and what it costs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/models.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct InfoCommand {
  std::string model;
  int64_t batch = 1, source_length = 64, target_length = 64, vocabulary = 32000;
};

Json versions() {
  Json result;
  result["heed"] = HEED_VERSION;
  // "name version;name version": what the build found
  std::string_view all = HEED_LIBRARIES;
  while (!all.empty()) {
    const size_t end = std::min(all.find(';'), all.size());
    const std::string_view one = all.substr(0, end);
    const size_t space = one.find(' ');
    if (space != std::string_view::npos) result[std::string(one.substr(0, space))] = std::string(one.substr(space + 1));
    all.remove_prefix(std::min(end + 1, all.size()));
  }
  return result;
}

Json machine() {
  const CpuInfo& cpu = cpu_info();
  Json sets = Json::array();
  for (const Isa isa : available_isas()) sets.push_back(to_string(isa));
  return {{"processor", cpu.model},
          {"cores", cpu.cores},
          {"threads", num_threads()},
          {"l1_bytes", cpu.l1_bytes},
          {"l2_bytes", cpu.l2_bytes},
          {"l3_bytes", cpu.l3_bytes},
          {"features", cpu.features},
          {"kernels", to_string(active_isa())},
          {"kernels_available", std::move(sets)},
          {"versions", versions()}};
}

std::string joined(const Json& list, const char* between) {
  std::string out;
  for (const auto& item : list) out += (out.empty() ? "" : between) + item.get<std::string>();
  return out;
}

std::string machine_text(const Json& m) {
  std::string out;
  const auto row = [&](const char* name, const std::string& value) { out += fmt::format("{:<12}{}\n", name, value); };
  row("processor", m["processor"].get<std::string>());
  row("cores", std::to_string(m["cores"].get<int>()));
  row("threads", std::to_string(m["threads"].get<int>()));
  row("caches", fmt::format("L1 {}, L2 {}, L3 {}", bytes_text(m["l1_bytes"]), bytes_text(m["l2_bytes"]),
                            bytes_text(m["l3_bytes"])));
  row("features", joined(m["features"], " "));
  row("kernels", fmt::format("{} (available: {}; HEED_ISA chooses)", m["kernels"].get<std::string>(),
                             joined(m["kernels_available"], ", ")));
  std::string libraries;
  for (const auto& [name, version] : m["versions"].items())
    libraries += (libraries.empty() ? "" : ", ") + name + " " + version.get<std::string>();
  row("versions", libraries);
  return out;
}

// A folder, a configuration file or the name of a preset.
models::Config find_config(const InfoCommand& o) {
  const fs::path path = o.model;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const fs::path file = path / "config.json";
    return models::config_from_json(io::read_file(file, 1 << 20), file.string());
  }
  if (fs::exists(path, ignored)) return models::config_from_json(io::read_file(path, 1 << 20), path.string());
  try {
    models::Config config = models::preset(o.model);
    config.source_vocabulary = config.target_vocabulary = o.vocabulary;
    return config;
  } catch (const Error&) {
    throw Error(
        fmt::format("{}: a model's folder, a config.json or a preset (tiny, small, base, big) was expected", o.model));
  }
}

std::string flops_text(int64_t flops) {
  const double f = static_cast<double>(flops);
  return f >= 1e12  ? fmt::format("{:.2f} TFLOP", f / 1e12)
         : f >= 1e9 ? fmt::format("{:.2f} GFLOP", f / 1e9)
                    : fmt::format("{:.2f} MFLOP", f / 1e6);
}

void print_model(const InfoCommand& o, const Context& context) {
  const models::Config config = find_config(o);
  if (fs::is_directory(fs::path(o.model))) (void)models::load(o.model);  // says what is wrong with the weights
  const models::Cost cost = models::cost(config, o.batch, o.source_length, o.target_length);
  const Json configuration = Json::parse(models::to_json(config));
  if (context.json) {
    print_line(Json{{"config", configuration},
                    {"batch", o.batch},
                    {"source_length", o.source_length},
                    {"target_length", o.target_length},
                    {"parameters", cost.parameters},
                    {"parameter_bytes", cost.parameter_bytes},
                    {"forward_flops", cost.forward_flops},
                    {"training_flops", cost.training_flops},
                    {"activation_bytes", cost.activation_bytes}}
                   .dump());
    return;
  }
  std::string out;
  for (const auto& [key, value] : configuration.items())
    out += fmt::format("{:<20}{}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  out += fmt::format("\n{:<20}{} ({})\n", "parameters", with_commas(cost.parameters), bytes_text(cost.parameter_bytes));
  const std::string shape =
      config.architecture == models::Architecture::encoder_decoder
          ? fmt::format("{} x {} source and {} target tokens", o.batch, o.source_length, o.target_length)
          : fmt::format("{} x {} tokens", o.batch,
                        config.architecture == models::Architecture::decoder_only ? o.target_length : o.source_length);
  out += fmt::format("for {}:\n", shape);
  out += fmt::format("{:<20}{} ({})\n", "  forward", flops_text(cost.forward_flops), with_commas(cost.forward_flops));
  out += fmt::format("{:<20}{}\n", "  training", flops_text(cost.training_flops));
  out += fmt::format("{:<20}{} kept for the backward pass, about\n", "  memory", bytes_text(cost.activation_bytes));
  print(out);
}

int run_info(const InfoCommand& o, Context& context) {
  if (!o.model.empty()) {
    print_model(o, context);
    return kSuccess;
  }
  const Json m = machine();
  print(context.json ? m.dump() + "\n" : machine_text(m));
  return kSuccess;
}

}  // namespace

void add_info_command(CLI::App& command, Context& context) {
  auto o = std::make_shared<InfoCommand>();
  const auto positive = between(int64_t{1}, kMany);
  command.add_option("model", o->model, "Folder of a model, a config.json, or a preset: tiny, small, base, big")
      ->type_name("MODEL");
  command.add_option("--batch", o->batch, "Sentences of the shape whose cost is told")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--source-length", o->source_length, "Its source tokens")->check(positive)->capture_default_str();
  command.add_option("--target-length", o->target_length, "Its target tokens")->check(positive)->capture_default_str();
  command.add_option("--vocabulary", o->vocabulary, "Tokens of a preset's vocabulary")
      ->check(positive)
      ->capture_default_str();
  command.footer(
      "A multiply-add counts as two operations.\n"
      "Examples:\n"
      "  heed info\n"
      "  heed info demo/en-zh --batch 32 --source-length 20 --target-length 20\n"
      "  heed info base --json\n");
  context.on_run(command, [o](Context& c) { return run_info(*o, c); });
}

}  // namespace heed::cli
