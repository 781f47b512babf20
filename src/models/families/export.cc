// heed's own models in the layouts of others: an encoder-decoder as a Marian, an encoder-only model as a BERT, a
// decoder-only one as a GPT-2.
#include <cmath>
#include <cstring>
#include <functional>

#include "heed/error.h"
#include "models/families/classifier.h"
#include "models/families/families.h"
#include "models/families/weights.h"
#include "models/weights.h"

namespace heed::models {
namespace {

using io::Json;

constexpr const char* kExporter = "save_huggingface";

void need(bool condition, std::string_view family, std::string_view what) {
  require(condition, kExporter, what, ", as a ", family, " has; found a model with something else");
}

const char* activation_word(Activation activation) {
  switch (activation) {
    case Activation::relu: return "relu";
    case Activation::gelu: return "gelu";
    case Activation::gelu_tanh: return "gelu_new";
    case Activation::silu: return "silu";
    case Activation::tanh: return "tanh";
    case Activation::none: break;
  }
  fail(kExporter, "an activation that transformers knows; found none");
}

// What all three want of a model.
void check_plain(const Config& c, std::string_view family) {
  need(c.norm == nn::NormKind::layer_norm, family, "layer_norm");
  need(c.key_value_heads == 0 || c.key_value_heads == c.heads, family, "as many key_value_heads as heads");
  need((c.head_size == 0 || c.head_size == c.width / c.heads) &&
           (c.value_size == 0 || c.value_size * c.heads == c.width),
       family, "heads of width / heads");
  need(!c.gated && c.relative_buckets == 0 && c.attention_scale == 0 && c.output_scale == 1, family,
       "none of gated, relative_buckets, attention_scale and output_scale");
}

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

Json common_config(const Config& c, const char* model_type, const char* class_name) {
  Json json = Json::object();
  json["architectures"] = Json::array({class_name});
  json["model_type"] = model_type;
  json["dtype"] = "float32";
  json["pad_token_id"] = c.padding_id;
  return json;
}

// Under the names that `read` gives them, with the values of `own`.
io::Tensors renamed(const Design& design, const io::Tensors& own) {
  io::Tensors result;
  for (const auto& [path, tensor] : own) result[place_of(design, path).name] = tensor;
  return result;
}

struct Exported {  // NOLINT(bugprone-exception-escape): of moving a Json, which nlohmann declares noexcept
  Json config, generation;
  io::Tensors tensors;
};

Exported as_marian(const Config& c, io::Tensors own) {
  check_plain(c, "Marian");
  need(c.norm_placement == NormPlacement::post && !c.final_norm && !c.embedding_norm && c.norm_epsilon == 1e-5f,
       "Marian", "norm_placement post, no other norms, norm_epsilon 1e-5");
  need(c.bias, "Marian", "biases");
  need(c.positions == Positions::sinusoidal && c.position_layout != nn::PositionLayout::halves && c.first_position == 0,
       "Marian", "sinusoidal positions in the layout interleaved or paper_halves, from 0");
  need(c.padding_id >= 0, "Marian", "a padding_id");
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
    case Head::masked_token:
      need(c.tie_output, "BERT", "a head that fills masks with the embeddings' weights");
      return {"BertForMaskedLM", "cls.predictions."};
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

Exported as_bert(const Config& c, io::Tensors own) {
  check_plain(c, "BERT");
  need(c.norm_placement == NormPlacement::post && !c.final_norm, "BERT", "norm_placement post and no final_norm");
  need(c.bias, "BERT", "biases");
  need(c.positions == Positions::learned && c.first_position == 0, "BERT", "learned positions, from 0");
  need(!c.scale_embedding, "BERT", "no scale_embedding");
  const BertClass kind = bert_class(c);
  if (!own.contains("encoder.embedding.types")) own["encoder.embedding.types"] = Tensor::zeros({2, c.width});
  const bool masks = c.head == Head::masked_token;
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
  json["layer_norm_eps"] = static_cast<double>(c.norm_epsilon);
  if (c.mask_id >= 0) json["mask_token_id"] = c.mask_id;
  if (c.head == Head::text_class) describe_text_classes(json, c.labels, c.plain_score);
  if (c.head == Head::token_class) name_classes(json, c.labels);
  Keys keys(json, kExporter);
  Weights names{{"bert.", Tensor::zeros({1})}};  // what there is
  if (!kind.head.empty()) names[std::string(kind.head)] = Tensor::zeros({1});
  const Design design = read_bert(keys, names);
  return {.config = json, .generation = {}, .tensors = renamed(design, own)};
}

Tensor transposed(const Tensor& weight) { return weight.transpose(0, 1).contiguous(); }

// One below the other.
Tensor stacked(const Tensor& a, const Tensor& b, const Tensor& c) {
  Shape shape = a.shape();
  shape[0] = a.size(0) + b.size(0) + c.size(0);
  const Tensor result = Tensor::empty(shape);
  float* out = result.data<float>();
  for (const Tensor& part : {a.contiguous(), b.contiguous(), c.contiguous()}) {
    std::memcpy(out, part.data<float>(), static_cast<size_t>(part.nbytes()));
    out += part.numel();
  }
  return result;
}

Exported as_gpt2(const Config& c, const io::Tensors& own) {
  check_plain(c, "GPT-2");
  need(c.norm_placement == NormPlacement::pre && c.final_norm && !c.embedding_norm, "GPT-2",
       "norm_placement pre and final_norm");
  need(c.positions == Positions::learned && c.first_position == 0, "GPT-2", "learned positions, from 0");
  need(!c.scale_embedding && !c.output_bias, "GPT-2", "neither scale_embedding nor output_bias");
  Json json = common_config(c, "gpt2", "GPT2LMHeadModel");
  json["vocab_size"] = c.target_vocabulary;
  json["n_embd"] = c.width;
  json["n_layer"] = c.decoder_layers;
  json["n_head"] = c.heads;
  json["n_inner"] = c.feed_forward;
  json["n_positions"] = c.max_length;
  json["activation_function"] = activation_word(c.activation);
  json["layer_norm_epsilon"] = static_cast<double>(c.norm_epsilon);
  json["tie_word_embeddings"] = c.tie_output;
  json["bos_token_id"] = c.begin_id;
  json["eos_token_id"] = c.end_id;
  io::Tensors out;
  // Without biases heed adds nothing, which is a bias of zeros.
  const auto bias = [&](const std::string& path, int64_t size) {
    const auto at = own.find(path + ".bias");
    return at == own.end() ? Tensor::zeros({size}) : at->second;
  };
  const auto norm = [&](const std::string& ours, const std::string& theirs) {
    out[theirs + ".weight"] = own.at(ours + ".gain");
    out[theirs + ".bias"] = bias(ours, c.width);
  };
  const auto linear = [&](const std::string& ours, const std::string& theirs) {  // theirs is (In, Out)
    out[theirs + ".weight"] = transposed(own.at(ours + ".weight"));
    out[theirs + ".bias"] = bias(ours, own.at(ours + ".weight").size(0));
  };
  out["transformer.wte.weight"] = own.at("decoder.embedding.tokens.weight");
  out["transformer.wpe.weight"] = own.at("decoder.embedding.positions");
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    const std::string ours = "decoder.layers." + std::to_string(i) + ".",
                      theirs = "transformer.h." + std::to_string(i) + ".";
    const std::string attention = ours + "self_attention.";
    norm(ours + "self_attention_norm", theirs + "ln_1");
    norm(ours + "feed_forward_norm", theirs + "ln_2");
    out[theirs + "attn.c_attn.weight"] = transposed(stacked(
        own.at(attention + "query.weight"), own.at(attention + "key.weight"), own.at(attention + "value.weight")));
    out[theirs + "attn.c_attn.bias"] = stacked(bias(attention + "query", c.width), bias(attention + "key", c.width),
                                               bias(attention + "value", c.width));
    linear(attention + "output", theirs + "attn.c_proj");
    linear(ours + "feed_forward.inner", theirs + "mlp.c_fc");
    linear(ours + "feed_forward.outer", theirs + "mlp.c_proj");
  }
  norm("decoder.norm", "transformer.ln_f");
  if (!c.tie_output) out["lm_head.weight"] = own.at("output.weight");
  return {.config = json, .generation = {}, .tensors = out};
}

}  // namespace

void save_huggingface(const Model& model, const std::filesystem::path& folder) {
  if (model.origin() != nullptr) return save(model, folder);
  const Config& config = model.config();
  io::Tensors own;
  for (const auto& [path, value] : model.named_parameters()) {
    own[path] = value.packed() == nullptr ? value.data() : value.packed()->unpack();
  }
  // heed takes the padding's vector for zero, others read it: that of padding, which no token attends to.
  Exported exported;
  switch (config.architecture) {
    case Architecture::encoder_decoder: exported = as_marian(config, std::move(own)); break;
    case Architecture::encoder_only: exported = as_bert(config, std::move(own)); break;
    case Architecture::decoder_only: exported = as_gpt2(config, own); break;
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
