// The models that are served: opened folders, looked at again before each request, because a training may have written
// new weights.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "heed/models.h"
#include "heed/pipelines.h"
#include "heed/text.h"
#include "pipelines/encoder_reader.h"
#include "serve/version.h"

namespace heed::serve {

// The languages of a request, of a model that knows several. Empty: what the folder says.
struct Spoken {
  std::string source = {}, target = {};
};

// A model with its tokenizers; never changes.
struct Served {
  int64_t id = 0;
  std::string name;     // "demo/en-zh": the name that is shown
  std::string version;  // changes with the files
  std::shared_ptr<const models::Model> model;
  std::shared_ptr<const text::Tokenizer> source, target;  // where the architecture has that side
  // Of a model that translates: how it reads a text, and the search as its folder wants it. A checkpoint has that of
  // its training.
  std::shared_ptr<const Translator> translator;
  Translator::Languages languages = {};
  std::shared_ptr<const pipelines::EncoderReader> reader;  // of an encoder-only model: how it reads a text

  [[nodiscard]] const models::Config& config() const { return model->config(); }
  [[nodiscard]] bool encodes() const { return config().architecture != models::Architecture::decoder_only; }
  [[nodiscard]] bool decodes() const { return config().architecture != models::Architecture::encoder_only; }
  [[nodiscard]] bool translates() const { return encodes() && decodes(); }
  // Whether it says tokens. An encoder without a head for masked tokens does not: it gives states, or classes.
  [[nodiscard]] bool guesses() const { return decodes() || config().head == models::Head::masked_token; }
  // The tokenizer of what the model says: its target's, or an encoder-only model's own.
  [[nodiscard]] const text::Tokenizer& output_tokenizer() const { return decodes() ? *target : *source; }
  // Tokens of a text. T5 sets no limit itself, and one layer's attention is not stopped: a text of 250,000 tokens kept
  // all others waiting for more than a minute after its client had left.
  [[nodiscard]] int64_t longest() const { return std::min<int64_t>(config().max_length, 32768); }
  // The id that a mask in a text becomes; -1 where there is none.
  [[nodiscard]] int32_t mask_id() const { return reader ? reader->mask_id : -1; }
  [[nodiscard]] std::string piece(int32_t token) const;         // of what it says; the mask too
  [[nodiscard]] std::string source_piece(int32_t token) const;  // of what its encoder reads
  // What is asked of a search, with what the folder says of it. Of a model that translates.
  [[nodiscard]] generate::BeamOptions search(const generate::BeamOptions& asked, const Spoken& spoken) const {
    return translator->search({.search = asked, .target_language = spoken.target});
  }
};

class Models {
 public:
  explicit Models(const std::vector<std::filesystem::path>& folders);

  // The model of this number, or of a checkpoint's number (training()). Throws Error for a number that is not there.
  [[nodiscard]] std::shared_ptr<const Served> at(int64_t id);
  [[nodiscard]] nlohmann::json list();
  // The rows of a training's log from row `after` on, and its checkpoints.
  [[nodiscard]] nlohmann::json training(int64_t id, int64_t after);
  [[nodiscard]] std::vector<std::string> lines();

 private:
  struct Place {
    ModelFolders folders;  // a checkpoint's tokenizers are in the folder of its training
    std::string name;
    bool checkpoint = false;
    std::shared_ptr<const Served> open;
  };
  void open(const Place& place, Served& fresh);
  void open_files(const Place& place, Served& fresh);
  void open_tokenizers(const Place& place, Served& fresh);

  int64_t count_;              // of the folders that were named; checkpoints come after them
  std::vector<Place> places_;  // by number
  std::deque<int64_t> open_checkpoints_;
};

}  // namespace heed::serve
