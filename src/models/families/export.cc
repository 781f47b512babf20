// heed's own models in the layouts of others: an encoder-decoder as a Marian, an encoder-only model as a BERT.
#include <cmath>
#include <cstring>
#include <functional>

#include "heed/error.h"
#include "models/families/classifier.h"
#include "models/families/export.h"
#include "models/families/families.h"
#include "models/families/weights.h"
#include "models/weights.h"

namespace heed::models {
namespace {

using io::Json;

// The residual stream's numbers in another order: those of even places, then those of odd ones. Sinusoids whose sines
// and cosines alternate become halves, and every layer computes the same, in that order.
class HalvesFirst {
 public:
  explicit HalvesFirst(int64_t width) : width_(width) {}

  // rows (R, E): each row.
  [[nodiscard]] Tensor columns(const Tensor& rows) const {
    const Tensor from = rows.contiguous(), to = Tensor::empty(rows.shape());
    for (int64_t r = 0; r < from.numel() / width_; ++r) {
      for (int64_t j = 0; j < width_; ++j) to.data<float>()[r * width_ + j] = from.data<float>()[r * width_ + place(j)];
    }
    return to;
  }
  // (E, ...): whole rows.
  [[nodiscard]] Tensor rows(const Tensor& tensor) const {
    const Tensor from = tensor.contiguous(), to = Tensor::empty(tensor.shape());
    const int64_t size = from.numel() / width_;
    for (int64_t j = 0; j < width_; ++j) {
      std::memcpy(to.data<float>() + j * size, from.data<float>() + place(j) * size,
                  static_cast<size_t>(size) * sizeof(float));
    }
    return to;
  }

 private:
  [[nodiscard]] int64_t place(int64_t j) const { return j < width_ / 2 ? 2 * j : 2 * (j - width_ / 2) + 1; }

  int64_t width_;
};

bool writes_stream(const std::string& path) {  // its rows are numbers of the residual stream
  return path.find("attention.output.") != std::string::npos || path.find("feed_forward.outer.") != std::string::npos ||
         path.find("norm.") != std::string::npos;
}
bool reads_stream(const std::string& path) {  // its columns are
  return path.ends_with("tokens.weight") || path.ends_with("query.weight") || path.ends_with("key.weight") ||
         path.ends_with("value.weight") || path.ends_with("inner.weight") || path == "output.weight";
}

// Under the names that `read` gives them, with the values of `own`.
io::Tensors renamed(const Design& design, const io::Tensors& own) {
  io::Tensors result;
  for (const auto& [path, tensor] : own) result[place_of(design, path).name] = tensor;
  return result;
}

Exported as_marian(const Config& c, io::Tensors own) {
  check_plain(c, "Marian");
  need(c.norm_placement == NormPlacement::post && !c.final_norm && !c.embedding_norm && c.norm_epsilon == 1e-5f,
       "Marian", "norm_placement post, no other norms, norm_epsilon 1e-5");
  need(c.positions == Positions::sinusoidal && c.position_layout != nn::PositionLayout::halves && c.first_position == 0,
       "Marian", "sinusoidal positions in the layout interleaved or paper_halves, from 0");
  need(c.padding_id >= 0, "Marian", "a padding_id");
  put_zero_biases(own);
  if (c.position_layout == nn::PositionLayout::interleaved) {
    const HalvesFirst order(c.width);
    for (auto& [path, tensor] : own) {
      if (writes_stream(path)) tensor = order.rows(tensor);
      if (reads_stream(path)) tensor = order.columns(tensor);
    }
  }
  if (!own.contains("output.bias")) own["output.bias"] = Tensor::zeros({c.target_vocabulary});
  Json json = common_config(c, "marian", "MarianMTModel");
  json["is_encoder_decoder"] = true;
  json["vocab_size"] = c.source_vocabulary;
  json["decoder_vocab_size"] = c.target_vocabulary;
  json["d_model"] = c.width;
  json["encoder_layers"] = c.encoder_layers;
  json["decoder_layers"] = c.decoder_layers;
  json["encoder_attention_heads"] = json["decoder_attention_heads"] = c.heads;
  json["encoder_ffn_dim"] = json["decoder_ffn_dim"] = c.feed_forward;
  json["activation_function"] = activation_word(c.activation);
  json["scale_embedding"] = c.scale_embedding;
  json["max_position_embeddings"] = c.max_length;
  json["share_encoder_decoder_embeddings"] = c.share_embeddings;
  json["tie_word_embeddings"] = c.tie_output;
  json["static_position_embeddings"] = true;
  json["decoder_start_token_id"] = c.begin_id;
  json["eos_token_id"] = json["forced_eos_token_id"] = c.end_id;
  json["dropout"] = 0.1;
  // The names depend on which tables there are.
  Weights names;
  for (const char* const name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
    if (!c.share_embeddings) names["model." + std::string(name)] = Tensor::zeros({1});
  }
  if (c.share_embeddings) names["model.shared.weight"] = Tensor::zeros({1});
  if (!c.tie_output) names["lm_head.weight"] = Tensor::zeros({2});
  names["final_logits_bias"] = Tensor::zeros({1});
  Keys keys(json, kExporter);
  const Design design = read_marian(keys, names);
  Exported result{.config = json, .generation = Json::object(), .tensors = renamed(design, own)};
  if (c.share_embeddings && !c.tie_output) {  // transformers 5 then takes nothing for a copy
    const Tensor table = result.tensors.at("model.shared.weight");
    for (const char* const name : {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"})
      result.tensors[name] = table;
  }
  Tensor& bias = result.tensors.at("final_logits_bias");
  bias = bias.reshape({1, c.target_vocabulary});
  result.generation["bad_words_ids"] = Json::array({Json::array({c.padding_id}), Json::array({c.begin_id})});
  result.generation["decoder_start_token_id"] = c.begin_id;
  result.generation["eos_token_id"] = result.generation["forced_eos_token_id"] = c.end_id;
  result.generation["pad_token_id"] = c.padding_id;
  result.generation["num_beams"] = 5;
  result.generation["max_length"] = c.max_length;
  return result;
}

struct BertClass {
  const char* name;
  std::string_view head;  // its first weights, beside BERT's; empty: none
};

BertClass bert_class(const Config& c) {
  const bool pools = c.head_hidden && c.head_activation == Activation::tanh;
  switch (c.head) {
    case Head::masked_token: return {"BertForMaskedLM", "cls.predictions."};
    case Head::text_class:
      need(pools && !c.head_norm && c.head_pooling == Pooling::first, "BERT",
           "classes of the first state, through a layer with tanh");
      return {"BertForSequenceClassification", "classifier."};
    case Head::token_class:
      need(!c.head_hidden && !c.head_norm, "BERT", "no layer between the states and their classes");
      if (c.labels == std::vector<std::string>{"start", "end"}) return {"BertForQuestionAnswering", "qa_outputs."};
      return {"BertForTokenClassification", "classifier."};
    case Head::none:
      need((pools || !c.head_hidden) && !c.head_norm && c.head_pooling == Pooling::first, "BERT",
           "no head, or a layer with tanh for the first state");
      return {"BertModel", c.head_hidden ? "bert.pooler.dense.weight" : ""};
  }
  fail(kExporter, "a head that BERT has; found another");
}

Exported as_bert(Config c, io::Tensors own) {
  check_plain(c, "BERT");
  need(c.norm_placement == NormPlacement::post && !c.final_norm, "BERT", "norm_placement post and no final_norm");
  const BertClass kind = bert_class(c);
  const bool masks = c.head == Head::masked_token;
  put_zero_biases(own);
  put_scale_into_table(c, own, "encoder.embedding.tokens.weight", masks ? "head.output.weight" : "");
  own["encoder.embedding.positions"] = position_table(c, own, "encoder.embedding.positions", "BERT");
  if (!own.contains("encoder.embedding.types")) own["encoder.embedding.types"] = Tensor::zeros({2, c.width});
  if (masks && !own.contains("head.output.bias")) own["head.output.bias"] = Tensor::zeros({c.source_vocabulary});
  Json json = common_config(c, "bert", kind.name);
  json["vocab_size"] = c.source_vocabulary;
  json["hidden_size"] = c.width;
  json["num_hidden_layers"] = c.encoder_layers;
  json["num_attention_heads"] = c.heads;
  json["intermediate_size"] = c.feed_forward;
  json["hidden_act"] = activation_word(c.activation);
  json["max_position_embeddings"] = c.max_length;
  json["type_vocab_size"] = own.at("encoder.embedding.types").size(0);
  json["tie_word_embeddings"] = c.tie_output;
  json["layer_norm_eps"] = static_cast<double>(c.norm_epsilon);
  if (c.mask_id >= 0) json["mask_token_id"] = c.mask_id;
  if (c.head == Head::text_class) describe_text_classes(json, c.labels, c.scores);
  if (c.head == Head::token_class) name_classes(json, c.labels);
  Keys keys(json, kExporter);
  Weights names{{"bert.", Tensor::zeros({1})}};  // what there is
  if (!kind.head.empty()) names[std::string(kind.head)] = Tensor::zeros({1});
  Exported result{.config = json, .generation = {}, .tensors = renamed(read_bert(keys, names), own)};
  if (masks && !c.tie_output)  // transformers 5 reads this name
    result.tensors["cls.predictions.decoder.bias"] = result.tensors.at("cls.predictions.bias");
  return result;
}

}  // namespace

void save_huggingface(const Model& model, const std::filesystem::path& folder) {
  if (model.origin() != nullptr) return save(model, folder);
  Config config = model.config();
  io::Tensors own;
  for (const auto& [path, value] : model.named_parameters()) {
    own[path] = value.packed() == nullptr ? value.data() : value.packed()->unpack();
  }
  // heed takes the padding's vector for zero, others read it: that of padding, which no token attends to.
  Exported exported;
  repeat_key_value_heads(config, own);
  switch (config.architecture) {
    case Architecture::encoder_decoder: exported = as_marian(config, std::move(own)); break;
    case Architecture::encoder_only: exported = as_bert(std::move(config), std::move(own)); break;
    case Architecture::decoder_only: exported = as_decoder(std::move(config), std::move(own)); break;
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, kExporter, "a folder at ", folder.string(), "; found: ", error.message());
  io::write_safetensors(folder / "model.safetensors", exported.tensors,
                        {{"format", "pt"}, {kChecksumKey, checksum(exported.tensors)}});
  if (!exported.generation.empty()) {
    io::write_file_atomically(folder / "generation_config.json", io::json_text(exported.generation, 2) + "\n");
  }
  io::write_file_atomically(folder / "config.json", io::json_text(exported.config, 2) + "\n");
}

}  // namespace heed::models
