#include "pipelines/ctranslate2.h"

#include <string>
#include <vector>

#include "base/files.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/models.h"
#include "models/ctranslate2.h"
#include "pipelines/marian_files.h"

namespace heed::pipelines {
namespace {

namespace fs = std::filesystem;

// The files of transformers' MarianTokenizer, which heed reads in either layout.
void write_tokenizers(const fs::path& from, const fs::path& to, const models::Ctranslate2Model& model) {
  for (const char* const file : {"source.spm", "target.spm"}) {
    std::error_code ignored;
    require(
        fs::exists(from / file, ignored), "convert", files::quoted(from),
        ": source.spm and target.spm, the model's SentencePiece models, here or in the folder of --tokenizers; found "
        "no ",
        file);
    io::write_file_atomically(to / file, io::read_file(from / file));
  }
  write_marian_files({.source = model.source_tokens,
                      .target = model.shared_vocabulary ? std::vector<std::string>() : model.target_tokens,
                      .end = model.end,
                      .unknown = model.unknown,
                      .padding = model.padding,
                      .longest = model.model->config().max_length},
                     to);
}

}  // namespace

void convert_ctranslate2(const fs::path& from, const fs::path& tokenizers, const fs::path& to, Layout layout,
                         WeightFormat weights) {
  require(layout != Layout::huggingface || weights != WeightFormat::int8, "convert",
          "weights in f32 for a folder that transformers reads; found weights in int8");
  std::error_code ignored;
  require(!fs::equivalent(from, to, ignored), "convert", "a folder other than the model's own; found ",
          files::quoted(to));
  models::Ctranslate2Model found = models::load_ctranslate2(from);
  if (weights != WeightFormat::f32) found.model->pack(weights);
  files::write_folder(to, "convert", side_files(from, to), [&](const fs::path& folder) {
    write_tokenizers(tokenizers.empty() ? from : tokenizers, folder, found);
    if (layout == Layout::huggingface) {
      models::save_huggingface(*found.model, folder);
    } else {
      models::save(*found.model, folder);
    }
  });
}

}  // namespace heed::pipelines
