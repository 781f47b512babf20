// heed plot: the curves of a training.
#include <fmt/format.h>

#include <filesystem>

#include "cli/command.h"
#include "heed/inspect.h"
#include "heed/io.h"

namespace heed::cli {
namespace {

struct PlotCommand {
  std::string log;
  std::string output = "curves.html";
};

int run_plot(const PlotCommand& o, Context& context) {
  std::filesystem::path log = o.log;
  if (std::filesystem::is_directory(log)) log /= "log.jsonl";
  const std::string ending = std::filesystem::path(o.output).extension().string();
  if (ending != ".html" && ending != ".svg")
    throw UsageError(fmt::format("--output ends in .html or .svg; found {}", inspect::escape_terminal(o.output)));
  io::write_file_atomically(o.output, ending == ".svg" ? inspect::plot_log_svg(log) : inspect::plot_log(log));
  message(context, "The curves of the training are in:");
  print_line(o.output);
  return kSuccess;
}

}  // namespace

void add_plot_command(CLI::App& command, Context& context) {
  auto o = std::make_shared<PlotCommand>();
  command.add_option("log", o->log, "A training's log.jsonl, or the folder it is in")->required()->type_name("LOG");
  command.add_option("--output", o->output, "The page (.html) or the picture (.svg)")
      ->type_name("FILE")
      ->capture_default_str();
  command.footer(
      "Draws loss, validation, learning rate and speed; a training that still runs can be drawn too.\n"
      "Examples:\n"
      "  heed plot runs/first --output curves.html\n"
      "  heed plot runs/first/log.jsonl --output curves.svg\n");
  context.on_run(command, [o](Context& c) { return run_plot(*o, c); });
}

}  // namespace heed::cli
