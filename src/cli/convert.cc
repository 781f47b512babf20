// heed convert: a model folder with its weights in another format, or in the layout of other tools.
#include <fmt/core.h>

#include <filesystem>

#include "cli/command.h"
#include "cli/convert_ctranslate2.h"
#include "cli/float_types.h"
#include "cli/json.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/text.h"
#include "models/ctranslate2.h"
#include "train/average.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

enum class Layout { same, heed, huggingface };

struct ConvertCommand {
  std::string model, output, tokenizers;
  WeightFormat weights = WeightFormat::f32;
  Layout layout = Layout::same;
  bool force = false;
};

double megabytes(const fs::path& folder) {
  double bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path file = entry.path();
    if (file.extension() == ".safetensors" || file.filename() == "model.bin")
      bytes += static_cast<double>(entry.file_size());
  }
  return bytes / 1e6;
}

// {"piece": id, ...}
std::string vocabulary_json(const text::Tokenizer& tokenizer) {
  JsonObject object;
  for (int32_t id = 0; id < tokenizer.vocabulary(); ++id) object.add(tokenizer.piece(id), int64_t{id});
  return object.text() + "\n";
}

// A heed translator's tokenizers as those of a Marian: two SentencePiece models, and the ids of their pieces.
void save_marian_tokenizers(const fs::path& from, const fs::path& to, const models::Config& config) {
  const auto source = text::Tokenizer::load(from, text::Side::source),
             target = text::Tokenizer::load(from, text::Side::target);
  for (const auto* const tokenizer : {source.get(), target.get()}) {
    if (tokenizer->kind() != "sentencepiece")
      throw Error(fmt::format("[convert] {}: SentencePiece models, as Marian has them; found a tokenizer of kind {}",
                              in_quotes(from.string()), in_quotes(tokenizer->kind())));
  }
  io::write_file_atomically(to / "source.spm", io::read_file(from / "source.model"));
  io::write_file_atomically(to / "target.spm", io::read_file(from / "target.model"));
  io::write_file_atomically(to / "vocab.json", vocabulary_json(*source));
  JsonObject settings;
  settings.add("tokenizer_class", "MarianTokenizer");
  if (!config.share_embeddings) {
    io::write_file_atomically(to / "target_vocab.json", vocabulary_json(*target));
    settings.add("separate_vocabs", true);
  }
  settings.add("eos_token", source->piece(source->special().end));
  settings.add("unk_token", source->piece(source->special().unknown));
  settings.add("pad_token", source->piece(source->special().padding));
  settings.add("model_max_length", config.max_length);
  io::write_file_atomically(to / "tokenizer_config.json", settings.text() + "\n");
}

void save_tokenizers(const fs::path& from, const fs::path& to, const models::Model& model, bool as_marian) {
  if (as_marian) return save_marian_tokenizers(from, to, model.config());
  if (model.origin() == nullptr) return train::copy_tokenizer(from, to);
  // Those of others are one file for both sides, or Marian's two.
  text::Tokenizer::load(from, text::Side::source)->save(to, text::Side::source);
  if (model.config().architecture == models::Architecture::encoder_decoder) {
    text::Tokenizer::load(from, text::Side::target)->save(to, text::Side::target);
  }
  for (const char* const file :
       {"generation_config.json", "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"}) {
    std::error_code ignored;
    if (fs::exists(from / file, ignored)) io::write_file_atomically(to / file, io::read_file(from / file));
  }
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
  if (!o.force && !fs::is_empty(o.output, error) && !error)
    throw UsageError(fmt::format("a new or empty folder is expected; found files in {} (--force writes over them)",
                                 in_quotes(o.output)));
  const bool int8 = o.weights == WeightFormat::int8;
  if (int8 && o.layout == Layout::huggingface)
    throw UsageError("weights in int8 are written in heed's own layout; found --layout huggingface");
  if (models::is_ctranslate2_folder(from)) {
    convert_ctranslate2(from, o.tokenizers, o.output, o.layout == Layout::huggingface, o.weights);
    report_sizes(from, o.output, context);
    return kSuccess;
  }
  if (!o.tokenizers.empty()) throw UsageError("--tokenizers is for folders of CTranslate2; found another model");
  const auto model = models::load(from, {.packed = int8, .weights = o.weights});
  const bool foreign = model->origin() != nullptr;
  const bool to_marian = !foreign && o.layout == Layout::huggingface &&
                         model->config().architecture == models::Architecture::encoder_decoder;
  if (o.layout == Layout::huggingface) {
    models::save_huggingface(*model, o.output);
    save_tokenizers(from, o.output, *model, to_marian);
  } else {
    const auto origin = model->origin();
    if (o.layout == Layout::heed || int8) model->set_origin(nullptr);
    models::save(*model, o.output);
    model->set_origin(origin);
    save_tokenizers(from, o.output, *model, false);
  }
  report_sizes(from, o.output, context);
  return kSuccess;
}

}  // namespace

void add_convert_command(Options& options) {
  auto o = std::make_shared<ConvertCommand>();
  options.add("MODEL", o->model, "Folder of a model, or its name in Hugging Face's cache").takes("DIR").required();
  options.add("OUTPUT", o->output, "Folder that gets the converted model").takes("DIR").required();
  options.choose("--weights", o->weights, kWeightFormats, kWeightsHelp);
  options.choose("--layout", o->layout,
                 {{"same", Layout::same}, {"heed", Layout::heed}, {"huggingface", Layout::huggingface}},
                 "Layout of the folder; weights in int8 are always in heed's, and so is what comes from CTranslate2 if "
                 "nothing else is asked");
  options
      .add("--tokenizers", o->tokenizers,
           "For folders of CTranslate2: where source.spm and target.spm are, if not in MODEL")
      .takes("DIR");
  options.flag("--force", o->force, "Write over what is in the output folder");
  options.footer(
      "A model in int8 gives the bits that --weights int8 gives with the model it was made from.\n"
      "In the layout of Hugging Face a translator is a Marian, an encoder a BERT, and a\n"
      "decoder-only model a GPT-2: transformers loads the folder.\n"
      "A translator of CTranslate2 (model.bin with its vocabularies) becomes one of heed's.\n"
      "Examples:\n"
      "  heed convert demo/en-zh en-zh-int8 --weights int8\n"
      "  heed convert demo/en-zh en-zh-marian --layout huggingface\n"
      "  heed convert opus-mt-ctranslate2 opus-mt --layout huggingface\n");
  options.on_run([o](Context& c) { return run_convert(*o, c); });
}

}  // namespace heed::cli
