// heed convert: a model folder with its weights in another format.
#include <fmt/core.h>

#include <filesystem>

#include "cli/command.h"
#include "cli/float_types.h"
#include "heed/models.h"
#include "train/average.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

struct ConvertCommand {
  std::string model, output;
  WeightFormat weights = WeightFormat::f32;
  bool force = false;
};

double megabytes(const std::string& folder) {
  return static_cast<double>(fs::file_size(fs::path(folder) / "model.safetensors")) / 1e6;
}

int run_convert(const ConvertCommand& o, Context& context) {
  std::error_code error;
  if (fs::equivalent(o.model, o.output, error))
    throw UsageError("a folder other than MODEL is expected after it; found the same one");
  if (!o.force && !fs::is_empty(o.output, error) && !error)
    throw UsageError(fmt::format("a new or empty folder is expected; found files in {} (--force writes over them)",
                                 in_quotes(o.output)));
  const auto model = models::load(o.model, {.packed = true, .weights = o.weights});
  models::save(*model, o.output);
  train::copy_tokenizer(o.model, o.output);
  message(context, fmt::format("wrote {}: weights of {:.1f} MB, {:.1f} MB before", escaped(o.output),
                               megabytes(o.output), megabytes(o.model)));
  return kSuccess;
}

}  // namespace

void add_convert_command(Options& options) {
  auto o = std::make_shared<ConvertCommand>();
  options.add("MODEL", o->model, "Folder of a model").takes("DIR").required();
  options.add("OUTPUT", o->output, "Folder that gets the converted model").takes("DIR").required();
  options.choose("--weights", o->weights, kWeightFormats, kWeightsHelp);
  options.flag("--force", o->force, "Write over what is in the output folder");
  options.footer(
      "A model in int8 gives the bits that --weights int8 gives with the model it was made from.\n"
      "Example:\n"
      "  heed convert demo/en-zh en-zh-int8 --weights int8\n");
  options.on_run([o](Context& c) { return run_convert(*o, c); });
}

}  // namespace heed::cli
