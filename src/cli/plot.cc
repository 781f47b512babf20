// heed plot: a page or a picture with the curves of a training.
#include <fmt/core.h>

#include <filesystem>

#include "cli/command.h"
#include "heed/inspect.h"

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
  if (ending != ".html" && ending != ".svg" && o.output != "-")
    throw UsageError(
        fmt::format("--output takes a name that ends in .html or .svg, or -; found {}", in_quotes(o.output)));
  write_result(o.output, ending == ".svg" ? inspect::plot_log_svg(log) : inspect::plot_log(log));
  if (o.output == "-") return kSuccess;
  message(context, "The curves of the training are in:");
  print_line(o.output);
  return kSuccess;
}

}  // namespace

void add_plot_command(Options& options) {
  auto o = std::make_shared<PlotCommand>();
  options.add("LOG", o->log, "A training's log.jsonl, or the folder it is in").required();
  options.add("--output", o->output, "The page (.html) or the picture (.svg); - writes the page to standard output")
      .takes("FILE");
  options.footer(
      "Draws loss, validation, learning rate and speed, also of a training that still runs.\n"
      "Examples:\n"
      "  heed plot runs/first --output curves.html\n"
      "  heed plot runs/first/log.jsonl --output curves.svg\n");
  options.on_run([o](Context& c) { return run_plot(*o, c); });
}

}  // namespace heed::cli
