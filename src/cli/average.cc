// heed average: the mean of several models' weights.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/command.h"
#include "heed/error.h"
#include "heed/train.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

struct AverageCommand {
  std::vector<std::string> folders;
  std::string output;
  int64_t last = 0;
  std::string dtype = "f32";
  bool force = false;
};

// The newest checkpoints of a training, oldest first.
std::vector<fs::path> last_checkpoints(const fs::path& run, int64_t count) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", error))
    if (entry.path().filename().string().starts_with("step-")) found.push_back(entry.path());
  if (error) throw Error(fmt::format("{}: {}", (run / "checkpoints").string(), error.message()));
  if (static_cast<int64_t>(found.size()) < count)
    throw Error(
        fmt::format("{}: {} checkpoints were expected; found {}", (run / "checkpoints").string(), count, found.size()));
  std::sort(found.begin(), found.end());
  found.erase(found.begin(), found.end() - count);
  return found;
}

int run_average(const AverageCommand& o, Context& context) {
  std::vector<fs::path> folders(o.folders.begin(), o.folders.end());
  if (o.last > 0) {
    if (folders.size() != 1) throw UsageError("--last takes the folder of one training");
    folders = last_checkpoints(folders[0], o.last);
  }
  train::average_models(folders, o.output, {.dtype = kFloatTypes.at(o.dtype), .overwrite = o.force});
  message(context, folders.size() == 1 ? fmt::format("one model: {}", o.output)
                                       : fmt::format("the mean of {} models: {}", folders.size(), o.output));
  return kSuccess;
}

}  // namespace

void add_average_command(CLI::App& command, Context& context) {
  auto o = std::make_shared<AverageCommand>();
  command.add_option("folders", o->folders, "Folders of models or checkpoints")->required()->type_name("MODEL");
  command.add_option("--output", o->output, "Folder that gets the mean")->required()->type_name("DIR");
  command.add_option("--last", o->last, "Instead: this many of the last checkpoints of one training")
      ->check(between(int64_t{1}, kMany));
  command.add_option("--dtype", o->dtype, "Type of the weights written: f32, or f16 or bf16 for half the size")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
  command.add_flag("--force", o->force, "Write over what is in the output folder");
  command.footer(
      "Examples:\n"
      "  heed average runs/en-de --last 10 --output runs/en-de-average\n"
      "  heed average runs/a runs/b runs/c --output runs/mean\n"
      "  heed average runs/a --output small --dtype f16      # one model, half the size\n");
  context.on_run(command, [o](Context& c) { return run_average(*o, c); });
}

}  // namespace heed::cli
