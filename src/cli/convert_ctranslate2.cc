#include "cli/convert_ctranslate2.h"

#include <fmt/core.h>

#include <set>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/json.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/models.h"
#include "models/ctranslate2.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

std::string as_vocabulary(const std::vector<std::string>& tokens, const fs::path& folder) {
  JsonObject object;
  std::set<std::string> known;
  int64_t id = 0;
  for (const std::string& token : tokens) {
    if (!known.insert(token).second)
      throw Error(
          fmt::format("[convert] {}: each token once; found {} twice", in_quotes(folder.string()), in_quotes(token)));
    object.add(token, id++);
  }
  return object.text() + "\n";
}

// The files of transformers' MarianTokenizer, which heed reads in either layout.
void write_tokenizers(const fs::path& from, const fs::path& to, const models::Ctranslate2Model& model) {
  for (const char* const file : {"source.spm", "target.spm"}) {
    std::error_code ignored;
    if (!fs::exists(from / file, ignored))
      throw Error(
          fmt::format("[convert] {}: source.spm and target.spm, the model's SentencePiece models, here or in "
                      "the folder of --tokenizers; found no {}",
                      in_quotes(from.string()), file));
    io::write_file_atomically(to / file, io::read_file(from / file));
  }
  io::write_file_atomically(to / "vocab.json", as_vocabulary(model.source_tokens, from));
  JsonObject settings;
  settings.add("tokenizer_class", "MarianTokenizer");
  if (!model.shared_vocabulary) {
    io::write_file_atomically(to / "target_vocab.json", as_vocabulary(model.target_tokens, from));
    settings.add("separate_vocabs", true);
  }
  settings.add("eos_token", model.end).add("unk_token", model.unknown).add("pad_token", model.padding);
  settings.add("model_max_length", model.model->config().max_length);
  io::write_file_atomically(to / "tokenizer_config.json", settings.text() + "\n");
}

}  // namespace

void convert_ctranslate2(const fs::path& from, const fs::path& tokenizers, const fs::path& to, bool huggingface,
                         WeightFormat weights) {
  models::Ctranslate2Model found = models::load_ctranslate2(from);
  fs::create_directories(to);
  write_tokenizers(tokenizers.empty() ? from : tokenizers, to, found);
  if (weights == WeightFormat::int8) found.model->pack(weights);
  if (huggingface) {
    models::save_huggingface(*found.model, to);
  } else {
    models::save(*found.model, to);
  }
}

}  // namespace heed::cli
