// RoBERTa: Liu et al. 2019; XLM-RoBERTa: Conneau et al. 2020. BERT whose positions begin behind the padding's id.
#include "models/families/family.h"

namespace heed::models {
namespace {

constexpr Rename kRobertaPooler[] = {{"head.dense", "pooler.dense"}};
constexpr Rename kRobertaMasked[] = {
    {"head.dense", "lm_head.dense"},
    {"head.norm", "lm_head.layer_norm"},
    {"head.output.weight", "lm_head.decoder.weight"},
};
constexpr Rename kRobertaBias[] = {{"head.output.bias", "lm_head.bias"}};
constexpr Rename kRobertaDecoderBias[] = {{"head.output.bias", "lm_head.decoder.bias"}};
constexpr Rename kRobertaTextClassifier[] = {{"head.dense", "classifier.dense"},
                                             {"head.output", "classifier.out_proj"}};
constexpr Rename kRobertaTokenClassifier[] = {{"head.output", "classifier"}};
constexpr Rename kRobertaAnswer[] = {{"head.output", "qa_outputs"}};

std::span<const Rename> classifier_names(std::string_view kind) {
  if (kind == "ForSequenceClassification") return kRobertaTextClassifier;
  if (kind == "ForQuestionAnswering") return kRobertaAnswer;
  return kRobertaTokenClassifier;
}

}  // namespace

// The head that RoBERTa and MPNet share.
void set_roberta_head(Design& design, Keys& keys, std::string_view kind, std::string_view prefix,
                      const Weights& weights) {
  Config& config = design.config;
  const std::string body(prefix);
  const bool tied = is_tied(config, weights, "lm_head.decoder.weight", body + "embeddings.word_embeddings.weight");
  config.tie_output = tied;
  set_head(config, keys, kind);
  if (config.head == Head::masked_token) {
    config.head_activation = Activation::gelu;  // whatever the layers have
    design.names.push_back({"", kRobertaMasked});
    const bool of_decoder = has_decoder_bias(keys, weights, "lm_head.decoder.bias", "lm_head.bias");
    design.names.push_back(
        {"", of_decoder ? std::span<const Rename>(kRobertaDecoderBias) : std::span<const Rename>(kRobertaBias)});
    design.unused.emplace_back(of_decoder ? "lm_head.bias" : "lm_head.decoder.bias");
    if (tied) design.unused.emplace_back("lm_head.decoder.weight");
  } else {
    config.head_hidden = kind == "ForSequenceClassification" || weights.contains(body + "pooler.dense.weight");
    if (kind != "ForSequenceClassification" && kind != "Model") config.head_hidden = false;
    config.head_activation = config.head_hidden ? Activation::tanh : Activation::none;
    if (kind == "Model") {
      design.names.push_back({prefix, kRobertaPooler});
    } else {
      design.names.push_back({"", classifier_names(kind)});
    }
  }
  ignore_other_heads(design, kRobertaHeads, kind);
  design.unused.push_back(body + "embeddings.position_ids");
  design.unused.push_back(body + "embeddings.token_type_ids");
  if (kind != "Model") design.unused.push_back(body + "pooler.*");
}

Design read_roberta(Keys& keys, const Weights& weights) {
  Design design{.config = bert_config(keys), .names = {}, .unused = {}};
  Config& config = design.config;
  config.token_types = keys.whole("type_vocab_size", 2);
  config.padding_id = keys.whole("pad_token_id", 1);
  config.first_position = config.padding_id + 1;
  config.max_length -= config.first_position;
  const std::string kind = encoder_class(
      keys, {"Roberta", "XLMRoberta", "Camembert"},
      {"Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"}, weights,
      kRobertaHeads);
  const std::string_view prefix = prefix_in(weights, "roberta.");
  design.names = {{prefix, bert_body()}};
  set_roberta_head(design, keys, kind, prefix, weights);
  return design;
}

}  // namespace heed::models
