// What a model has read and written, as ids, and a forward pass over it under probes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/nn.h"
#include "heed/probe.h"
#include "serve/arguments.h"
#include "serve/models.h"

namespace heed::serve {

using Ids = std::vector<int32_t>;

struct Reading {
  std::shared_ptr<const Served> model = {};
  Ids source = {};  // of the encoder, with the end id; empty in a decoder-only model
  Ids target = {};  // of the decoder: in an encoder-decoder it starts with the begin id
  Spoken spoken = {};

  // The ids whose rows say something: the decoder's, or those of an encoder-only model.
  [[nodiscard]] const Ids& rows() const { return model->decodes() ? target : source; }
};

// "text" as the model reads it, or "source" and "target". Throws Error for ids that are none of the model's, for a text
// that is longer than the model reads, and for an empty one.
[[nodiscard]] Reading reading_of(std::shared_ptr<const Served> model, const Arguments& request);
[[nodiscard]] Ids ids_of_text(const Served& model, text::Side side, std::string_view text, const Spoken& spoken);
// Throws Error for ids beside the "text" of a request, which would be dropped.
void require_no_ids(const Arguments& request);
// "source_language" and "target_language". Throws Error for one that the model does not know.
[[nodiscard]] Spoken spoken_of(const Served& model, const Arguments& request);
// "source" and "target" of an object; what a reading consists of once its text is tokens.
[[nodiscard]] Reading reading_of_ids(std::shared_ptr<const Served> model, const Arguments& object);

[[nodiscard]] std::vector<std::string> pieces(const Served& model, const Ids& ids);         // of what it says
[[nodiscard]] std::vector<std::string> source_pieces(const Served& model, const Ids& ids);  // of what it reads

// The text of the ids. Rows of a table that no token belongs to add nothing to it.
[[nodiscard]] std::string text_of(const text::Tokenizer& tokenizer, Ids ids);

// Several probes as one: each sees what the one before it has left.
class Probes : public nn::Probe {
 public:
  explicit Probes(std::vector<nn::Probe*> probes) : probes_(std::move(probes)) {}
  void on_attention(std::string_view layer, const Tensor& query, const Tensor& key, const Tensor& value,
                    AttentionOptions& options) override;
  [[nodiscard]] Tensor on_heads(std::string_view layer, const Tensor& heads) override;
  void on_added(std::string_view sublayer, const Tensor& added) override;
  [[nodiscard]] Tensor on_state(std::string_view sublayer, const Tensor& state) override;

 private:
  std::vector<nn::Probe*> probes_;
};

// One forward pass. `probe` and `observer` may be null. Returns the logits (L, V) of rows(); of a model that guesses no
// tokens (Served::guesses()) an undefined tensor.
[[nodiscard]] Tensor logits_of(const Reading& reading, nn::Probe* probe, nn::AttentionObserver* observer = nullptr);
// The logits (L, V) if the layers that write ended with these states (L, E).
[[nodiscard]] Tensor lens(const Served& model, const Tensor& states);

// "encoder.layers.2.self_attention" of part "encoder" and layer 2. Throws Error for what the model has not.
[[nodiscard]] std::string attention_path(const Served& model, std::string_view part, int64_t layer);
[[nodiscard]] int64_t layers_of(const Served& model, std::string_view part);
// The part that an argument names: encoder, decoder or cross, as far as the model has it.
[[nodiscard]] std::string part_of(const Served& model, const Arguments& request);
// How many rows and columns a map of this part has.
[[nodiscard]] std::pair<int64_t, int64_t> size_of_map(const Reading& reading, std::string_view part);

}  // namespace heed::serve
