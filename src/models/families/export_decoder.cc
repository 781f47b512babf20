// heed's own decoder-only models in the layouts of others: as a GPT-2 (Radford et al. 2019), or, with ALiBi, as an MPT
// (MosaicML 2023).
#include <cstring>

#include "heed/error.h"
#include "models/families/export.h"

namespace heed::models {
namespace {

using io::Json;

constexpr const char* kTable = "decoder.embedding.tokens.weight";

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

// Queries, keys and values of a layer's attention in one tensor; `part` is "weight" or "bias".
Tensor queries_keys_values(const io::Tensors& own, const std::string& attention, const std::string& part) {
  return stacked(own.at(attention + "query." + part), own.at(attention + "key." + part),
                 own.at(attention + "value." + part));
}

void check_decoder(const Config& c, std::string_view family) {
  check_plain(c, family);
  need(c.norm_placement == NormPlacement::pre && c.final_norm && !c.embedding_norm, family,
       "norm_placement pre and final_norm");
  need(!c.output_bias, family, "an output without a bias (output_bias = false)");
}

void put_token_ids(Json& json, const Config& c) {
  json["vocab_size"] = c.target_vocabulary;
  json["tie_word_embeddings"] = c.tie_output;
  json["bos_token_id"] = c.begin_id;
  json["eos_token_id"] = c.end_id;
}

Exported as_gpt2(Config c, io::Tensors own) {
  check_decoder(c, "GPT-2");
  put_zero_biases(own);
  put_scale_into_table(c, own, kTable, "output.weight");
  Json json = common_config(c, "gpt2", "GPT2LMHeadModel");
  put_token_ids(json, c);
  json["n_embd"] = c.width;
  json["n_layer"] = c.decoder_layers;
  json["n_head"] = c.heads;
  json["n_inner"] = c.feed_forward;
  json["n_positions"] = c.max_length;
  json["activation_function"] = activation_word(c.activation);
  json["layer_norm_epsilon"] = static_cast<double>(c.norm_epsilon);
  io::Tensors out;
  const auto norm = [&](const std::string& ours, const std::string& theirs) {
    out[theirs + ".weight"] = own.at(ours + ".gain");
    out[theirs + ".bias"] = own.at(ours + ".bias");
  };
  const auto linear = [&](const std::string& theirs, const Tensor& weight, const Tensor& bias) {
    out[theirs + ".weight"] = weight.transpose(0, 1).contiguous();  // (In, Out)
    out[theirs + ".bias"] = bias;
  };
  out["transformer.wte.weight"] = own.at(kTable);
  out["transformer.wpe.weight"] = position_table(c, own, "decoder.embedding.positions", "GPT-2");
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    const std::string ours = "decoder.layers." + std::to_string(i) + ".",
                      theirs = "transformer.h." + std::to_string(i) + ".", attention = ours + "self_attention.",
                      inner = ours + "feed_forward.inner", outer = ours + "feed_forward.outer";
    norm(ours + "self_attention_norm", theirs + "ln_1");
    norm(ours + "feed_forward_norm", theirs + "ln_2");
    linear(theirs + "attn.c_attn", queries_keys_values(own, attention, "weight"),
           queries_keys_values(own, attention, "bias"));
    linear(theirs + "attn.c_proj", own.at(attention + "output.weight"), own.at(attention + "output.bias"));
    linear(theirs + "mlp.c_fc", own.at(inner + ".weight"), own.at(inner + ".bias"));
    linear(theirs + "mlp.c_proj", own.at(outer + ".weight"), own.at(outer + ".bias"));
  }
  norm("decoder.norm", "transformer.ln_f");
  if (!c.tie_output) out["lm_head.weight"] = own.at("output.weight");
  return {.config = json, .generation = {}, .tensors = out};
}

Exported as_mpt(Config c, io::Tensors own) {
  check_decoder(c, "MPT");
  need(!c.bias, "MPT", "layers without biases (bias = false)");
  need(c.feed_forward == 4 * c.width && c.activation == Activation::gelu, "MPT", "feed_forward of 4 width and gelu");
  put_scale_into_table(c, own, kTable, "output.weight");
  Json json = common_config(c, "mpt", "MptForCausalLM");
  put_token_ids(json, c);
  json["d_model"] = c.width;
  json["n_layers"] = c.decoder_layers;
  json["n_heads"] = c.heads;
  json["expansion_ratio"] = 4;
  json["max_seq_len"] = c.max_length;
  json["learned_pos_emb"] = false;
  json["no_bias"] = true;
  json["layer_norm_epsilon"] = static_cast<double>(c.norm_epsilon);
  json["attn_config"] = Json::object();
  json["attn_config"]["alibi"] = true;
  json["attn_config"]["alibi_bias_max"] = 8;
  io::Tensors out;
  out["transformer.wte.weight"] = own.at(kTable);
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    const std::string ours = "decoder.layers." + std::to_string(i) + ".",
                      theirs = "transformer.blocks." + std::to_string(i) + ".", attention = ours + "self_attention.";
    out[theirs + "norm_1.weight"] = own.at(ours + "self_attention_norm.gain");
    out[theirs + "norm_2.weight"] = own.at(ours + "feed_forward_norm.gain");
    out[theirs + "attn.Wqkv.weight"] = queries_keys_values(own, attention, "weight");
    out[theirs + "attn.out_proj.weight"] = own.at(attention + "output.weight");
    out[theirs + "ffn.up_proj.weight"] = own.at(ours + "feed_forward.inner.weight");
    out[theirs + "ffn.down_proj.weight"] = own.at(ours + "feed_forward.outer.weight");
  }
  out["transformer.norm_f.weight"] = own.at("decoder.norm.gain");
  if (!c.tie_output) out["lm_head.weight"] = own.at("output.weight");
  return {.config = json, .generation = {}, .tensors = out};
}

}  // namespace

Exported as_decoder(Config config, io::Tensors own) {
  return config.positions == Positions::alibi ? as_mpt(std::move(config), std::move(own))
                                              : as_gpt2(std::move(config), std::move(own));
}

}  // namespace heed::models
