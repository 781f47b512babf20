// heed convert: a model folder with its weights in another format, or in the layout of other tools.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "cli/command.h"
#include "cli/float_types.h"
#include "formats/weights.h"
#include "heed/io.h"
#include "heed/models.h"
#include "models/ctranslate2.h"
#include "pipelines/ctranslate2.h"
#include "pipelines/save.h"
#include "pipelines/sentence_modules.h"
#include "train/average.h"
#include "train/run_folder.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

using pipelines::Layout;

struct ConvertCommand {
  std::string model, output, tokenizers;
  WeightFormat weights = WeightFormat::f32;
  Layout layout = Layout::same;
  bool force = false;
};

// Of the weights that are read: safetensors where there are some.
double megabytes(const fs::path& folder) {
  double bytes = 0, older = 0;
  std::error_code ignored;
  const fs::path inner = pipelines::SentenceModules::encoder_folder(folder);
  for (const auto& entry : fs::directory_iterator(inner, ignored)) {
    if (!entry.is_regular_file(ignored)) continue;
    const std::string name = entry.path().filename().string();
    const auto size = static_cast<double>(entry.file_size(ignored));
    if (name.ends_with(".safetensors")) bytes += size;
    if (name.ends_with(".bin") && (name.starts_with("pytorch_model") || name == "model.bin")) older += size;
  }
  return (bytes > 0 ? bytes : older) / 1e6;
}

// A checkpoint of heed's training, whose tokenizers are two folders above it.
bool lacks_tokenizers(const fs::path& folder) {
  std::error_code ignored;
  return std::ranges::none_of(train::tokenizer_files(), [&](const char* n) { return fs::exists(folder / n, ignored); });
}

// Whatever the folder holds, with everything that belongs to it.
void convert_pipeline(const fs::path& from, const ConvertCommand& o) {
  std::error_code error;
  if (o.layout != Layout::huggingface && lacks_tokenizers(from) && fs::exists(from / "config.json", error)) {
    const auto model = models::load(from, {.packed = o.weights == WeightFormat::int8, .weights = o.weights});
    if (model->origin() == nullptr) {
      return files::write_folder(o.output, "convert", io::safetensors_shards(o.output), [&](const fs::path& folder) {
        models::save(*model, folder);
        train::copy_tokenizer(from, folder);
      });
    }
  }
  const bool apart = !fs::exists(from / "config.json", error) && fs::exists(from / "modules.json", error);
  const auto architecture = apart ? models::Architecture::encoder_only : models::read_config(from).architecture;
  switch (architecture) {
    case models::Architecture::encoder_decoder:
      return pipelines::save(Translator::load(from, o.weights), from, o.output, o.layout);
    case models::Architecture::decoder_only:
      return pipelines::save(Generator::load(from, o.weights), from, o.output, o.layout);
    case models::Architecture::encoder_only:
      return pipelines::save(Encoder::load(from, o.weights), from, o.output, o.layout);
  }
}

bool has_int8(const fs::path& folder) {
  const fs::path file = pipelines::SentenceModules::encoder_folder(folder) / "model.safetensors";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return false;
  return std::ranges::any_of(io::read_safetensors(file).tensors,
                             [](const auto& entry) { return entry.second.dtype() == DType::i8; });
}

void report_sizes(const fs::path& from, const std::string& to, const Context& context) {
  message(context,
          fmt::format("wrote {}: weights of {:.1f} MB, {:.1f} MB before", escaped(to), megabytes(to), megabytes(from)));
}

int run_convert(const ConvertCommand& o, Context& context) {
  std::error_code error;
  const fs::path from = io::find_model_folder(o.model);
  if (fs::equivalent(from, o.output, error))
    throw UsageError("a folder other than MODEL is expected after it; found the same one");
  require_new_folder(o.output, o.force);
  const bool int8 = o.weights == WeightFormat::int8;
  if (int8 && o.layout == Layout::huggingface)
    throw UsageError(
        "--layout same or heed is expected for weights in int8, which transformers does not read; found huggingface");
  if (models::is_ctranslate2_folder(from)) {
    pipelines::convert_ctranslate2(from, o.tokenizers, o.output, o.layout, o.weights);
    report_sizes(from, o.output, context);
    return kSuccess;
  }
  if (!o.tokenizers.empty()) throw UsageError("--tokenizers is for folders of CTranslate2; found another model");
  const io::PytorchAllowed here_alone;
  convert_pipeline(from, o);
  report_sizes(from, o.output, context);
  if (!int8 && has_int8(o.output)) message(context, "the weights were in int8 before, and stay so");
  if (o.layout == Layout::huggingface && pipelines::lacks_tokenizer_json(o.output))
    message(
        context,
        "transformers reads the weights of this folder, but not its tokenizer, which a tokenizer.json cannot describe");
  return kSuccess;
}

}  // namespace

void add_convert_command(Options& options) {
  auto o = std::make_shared<ConvertCommand>();
  options.add("MODEL", o->model, "Folder of a model, or its name in Hugging Face's cache").takes("DIR").required();
  options.add("OUTPUT", o->output, "Folder that gets the converted model").takes("DIR").required();
  options.choose("--weights", o->weights, {{"f32", WeightFormat::f32}, {"int8", WeightFormat::int8}},
                 "Format of the weights of linear layers; int8 takes a quarter of the memory and is less exact");
  options.choose("--layout", o->layout,
                 {{"same", Layout::same}, {"heed", Layout::heed}, {"huggingface", Layout::huggingface}},
                 "Layout of the folder; what comes from CTranslate2 is in heed's if nothing else is asked");
  options
      .add("--tokenizers", o->tokenizers,
           "For folders of CTranslate2: where source.spm and target.spm are, if not in MODEL")
      .takes("DIR");
  options.flag("--force", o->force,
               "Write over the model in the output folder and its card (README.md); other files stay");
  options.footer(
      "A model in int8 gives the bits that --weights int8 gives with the model it was made from.\n"
      "In the layout of Hugging Face a translator is a Marian, an encoder a BERT, and a\n"
      "decoder-only model a GPT-2, or with ALiBi an MPT: transformers loads the folder with its\n"
      "tokenizer.\n"
      "The older weights of PyTorch (pytorch_model.bin) become model.safetensors. Nothing in\n"
      "them is run, as Python may do when it reads them.\n"
      "A translator of CTranslate2 (model.bin with its vocabularies) becomes one of heed's.\n"
      "Examples:\n"
      "  heed convert demo/en-zh en-zh-int8 --weights int8\n"
      "  heed convert demo/en-zh en-zh-marian --layout huggingface\n"
      "  heed convert Helsinki-NLP/opus-mt-en-de opus-mt-en-de\n"
      "  heed convert opus-mt-ctranslate2 opus-mt --layout huggingface\n");
  options.on_run([o](Context& c) { return run_convert(*o, c); });
}

}  // namespace heed::cli
