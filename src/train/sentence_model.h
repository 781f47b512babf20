// An encoder with the Dense modules of sentence-transformers above it, which are trained with it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "heed/io.h"
#include "heed/models.h"
#include "models/sentence_dense.h"
#include "models/sentence_folder.h"

namespace heed::train {

class SentenceModel : public models::Model {
 public:
  // A Dense in `folder` below that of modules.json ("2_Dense"), or where that is empty a Normalize.
  struct Layer {
    std::string folder;
    models::SentenceDense dense;
  };
  SentenceModel(std::unique_ptr<models::Bert> encoder, std::vector<Layer> layers);
  ~SentenceModel() override;

  [[nodiscard]] const models::Bert& encoder() const { return *encoder_; }
  // Pooled states (B, In) through all layers: (B, Out).
  [[nodiscard]] Value vectors(const Value& pooled) const;

  // The tensors of the Dense modules, as "2_Dense/linear.weight": no encoder's tensor has a name with a slash.
  [[nodiscard]] io::Tensors dense_tensors() const;
  // The encoder's folder, and those of the Dense modules in it.
  void save(const std::filesystem::path& folder) const;

 private:
  class Weights;
  std::unique_ptr<models::Bert> encoder_;
  std::vector<Layer> layers_;
  std::vector<std::unique_ptr<Weights>> weights_;
};

// The layers above the pooling of a folder with modules.json, whose pooled states have `width` numbers; none where it
// has no Dense.
[[nodiscard]] std::vector<SentenceModel::Layer> read_layers(const std::filesystem::path& folder, int64_t width);

}  // namespace heed::train
