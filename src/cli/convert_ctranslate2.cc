#include "cli/convert_ctranslate2.h"

#include <fmt/core.h>

#include <string>
#include <vector>

#include "base/files.h"
#include "cli/command.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/models.h"
#include "models/ctranslate2.h"
#include "pipelines/marian_files.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

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
  pipelines::write_marian_files({.source = model.source_tokens,
                                 .target = model.shared_vocabulary ? std::vector<std::string>() : model.target_tokens,
                                 .end = model.end,
                                 .unknown = model.unknown,
                                 .padding = model.padding,
                                 .longest = model.model->config().max_length},
                                to);
}

}  // namespace

void convert_ctranslate2(const fs::path& from, const fs::path& tokenizers, const fs::path& to, bool huggingface,
                         WeightFormat weights) {
  models::Ctranslate2Model found = models::load_ctranslate2(from);
  if (weights == WeightFormat::int8) found.model->pack(weights);
  files::write_folder(to, "convert", {}, [&](const fs::path& folder) {
    write_tokenizers(tokenizers.empty() ? from : tokenizers, folder, found);
    if (huggingface) {
      models::save_huggingface(*found.model, folder);
    } else {
      models::save(*found.model, folder);
    }
  });
}

}  // namespace heed::cli
