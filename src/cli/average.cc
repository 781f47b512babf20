// heed average: the mean of several models' weights.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "cli/command.h"
#include "cli/float_types.h"
#include "heed/error.h"
#include "heed/train.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

struct AverageCommand {
  std::vector<std::string> folders;
  std::string output;
  int64_t last = 0;
  DType dtype = DType::f32;
  bool force = false;
};

// The newest checkpoints of a training, oldest first.
std::vector<fs::path> last_checkpoints(const fs::path& run, int64_t count) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", error))
    if (entry.path().filename().string().starts_with("step-")) found.push_back(entry.path());
  const std::string name = escaped((run / "checkpoints").string());
  if (error)
    throw Error(
        fmt::format("--last: expected the folder of a training, with checkpoints in it; '{}' cannot be read: {}", name,
                    error.message()));
  if (static_cast<int64_t>(found.size()) < count)
    throw Error(
        fmt::format("{}: expected {}; found {}", name, counted(count, "checkpoint", "checkpoints"), found.size()));
  std::sort(found.begin(), found.end());
  found.erase(found.begin(), found.end() - count);
  return found;
}

int run_average(const AverageCommand& o, Context& context) {
  std::vector<fs::path> folders(o.folders.begin(), o.folders.end());
  if (o.last > 0) {
    if (folders.size() != 1)
      throw UsageError(fmt::format("--last needs the folder of one training; found {} folders", folders.size()));
    folders = last_checkpoints(folders[0], o.last);
  }
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    if (fs::equivalent(folder, o.output, ignored))
      throw UsageError("a folder other than those of the models is expected at --output; found one of them");
  }
  require_new_folder(o.output, o.force);
  train::average_models(folders, o.output, {.dtype = o.dtype, .overwrite = o.force});
  const auto count = static_cast<int64_t>(folders.size());
  message(context, fmt::format("wrote {} to {}",
                               count == 1 ? std::string("a copy of one model")
                                          : "the mean of " + counted(count, "model", "models"),
                               escaped(o.output)));
  return kSuccess;
}

}  // namespace

void add_average_command(Options& options) {
  auto o = std::make_shared<AverageCommand>();
  options.add("MODEL", o->folders, "Folders of models or checkpoints").takes("DIR").required();
  options.add("--output", o->output, "Folder that gets the mean").takes("DIR").required();
  options.add("--last", o->last, "Take this many of the last checkpoints of one training instead").range(1).shows("");
  options.choose("--dtype", o->dtype, kFloatTypes, "Type of the weights written; f16 and bf16 take half the size");
  options.flag("--force", o->force, "Write over the model in the output folder; other files stay");
  options.footer(
      "Examples:\n"
      "  heed average runs/en-de --last 10 --output runs/en-de-average\n"
      "  heed average runs/a runs/b runs/c --output runs/mean\n"
      "  heed average runs/a --output small --dtype f16      # one model, half the size\n");
  options.on_run([o](Context& c) { return run_average(*o, c); });
}

}  // namespace heed::cli
