#include "models/families/keys.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "heed/error.h"

namespace heed::models {
namespace {

constexpr const char* kKeysReader = "load";

const io::Json kNothing;

// Keys of transformers' config.json that change no result of a forward pass: names and versions, what only training or
// printing uses, and settings of text generation (generation_config.json has those that count). The last ones are
// left over from older programs, a pooler's sizes for example: no version reads them.
constexpr std::array<std::string_view, 109> kHarmless = {"architectures",
                                                         "model_type",
                                                         "transformers_version",
                                                         "dtype",
                                                         "torch_dtype",
                                                         "name_or_path",
                                                         "torchscript",
                                                         "use_cache",
                                                         "output_attentions",
                                                         "output_hidden_states",
                                                         "return_dict",
                                                         "gradient_checkpointing",
                                                         "initializer_range",
                                                         "initializer_factor",
                                                         "initializer_cutoff_factor",
                                                         "init_std",
                                                         "use_bfloat16",
                                                         "attn_implementation",
                                                         "reference_compile",
                                                         "deterministic_flash_attn",
                                                         "repad_logits_with_grad",
                                                         "sparse_prediction",
                                                         "sparse_pred_ignore_index",
                                                         "chunk_size_feed_forward",
                                                         "problem_type",
                                                         "task_specific_params",
                                                         "finetuning_task",
                                                         "tokenizer_class",
                                                         "prefix",
                                                         "tf_legacy_loss",
                                                         "nsp",
                                                         "num_labels",
                                                         "id2label",
                                                         "label2id",
                                                         "attention_probs_dropout_prob",
                                                         "hidden_dropout_prob",
                                                         "hidden_dropout",
                                                         "attention_dropout",
                                                         "dropout",
                                                         "dropout_rate",
                                                         "activation_dropout",
                                                         "classifier_dropout",
                                                         "classifier_dropout_prob",
                                                         "classif_dropout",
                                                         "embedding_dropout",
                                                         "mlp_dropout",
                                                         "qa_dropout",
                                                         "seq_classif_dropout",
                                                         "encoder_layerdrop",
                                                         "decoder_layerdrop",
                                                         "is_encoder_decoder",
                                                         "max_length",
                                                         "min_length",
                                                         "max_new_tokens",
                                                         "num_beams",
                                                         "num_beam_groups",
                                                         "do_sample",
                                                         "temperature",
                                                         "top_k",
                                                         "top_p",
                                                         "typical_p",
                                                         "repetition_penalty",
                                                         "length_penalty",
                                                         "diversity_penalty",
                                                         "no_repeat_ngram_size",
                                                         "encoder_no_repeat_ngram_size",
                                                         "early_stopping",
                                                         "num_return_sequences",
                                                         "renormalize_logits",
                                                         "remove_invalid_values",
                                                         "exponential_decay_length_penalty",
                                                         "bad_words_ids",
                                                         "suppress_tokens",
                                                         "begin_suppress_tokens",
                                                         "forced_bos_token_id",
                                                         "forced_eos_token_id",
                                                         "bos_token_id",
                                                         "sep_token_id",
                                                         "cls_token_id",
                                                         "mask_token_id",
                                                         "unk_token_id",
                                                         "kobart_version",
                                                         "output_past",
                                                         "sentence_transformers",
                                                         "sbert_ce_default_activation_function",
                                                         "language",
                                                         "directionality",
                                                         "pooler_fc_size",
                                                         "pooler_num_attention_heads",
                                                         "pooler_num_fc_layers",
                                                         "pooler_size_per_head",
                                                         "pooler_type",
                                                         "name",
                                                         "emb_size",
                                                         "xla_device",
                                                         "eos_token_ids",
                                                         "vocab_size_or_config_json_file",
                                                         "save_step",
                                                         "replacing_rate",
                                                         "pre_trained",
                                                         "training",
                                                         "author",
                                                         "license",
                                                         "task",
                                                         "matryoshka_dimensions",
                                                         "transformers.js_config",
                                                         "model_max_length",
                                                         "max_seq_length",
                                                         "label_smoothing"};

bool changes_nothing(std::string_view key, const io::Json& value) {
  return value.is_null() || value == false || value == "" || (value.is_structured() && value.empty()) ||
         key.starts_with("_") || key.starts_with("summary_") ||
         std::find(kHarmless.begin(), kHarmless.end(), key) != kHarmless.end();
}

std::string shown(const io::Json& value) {
  std::string text = io::json_ascii(value);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

std::string list_of(std::initializer_list<std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

}  // namespace

Keys::Keys(const io::Json& object, std::string where) : object_(object), where_(std::move(where)) {
  require(object_.is_object(), kKeysReader, where_, ": a JSON object; found ", object_.type_name());
}

const io::Json* Keys::find(std::string_view key) {
  read_.emplace(key);
  const auto at = object_.find(std::string(key));
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

bool Keys::has(std::string_view key) const {
  const auto at = object_.find(std::string(key));
  return at != object_.end() && !at->is_null();
}

bool Keys::is_null(std::string_view key) const {
  const auto at = object_.find(std::string(key));
  return at != object_.end() && at->is_null();
}

const io::Json& Keys::value(std::string_view key) {
  const io::Json* const found = find(key);
  return found == nullptr ? kNothing : *found;
}

void Keys::refuse(std::string_view key, std::string_view expected) const {
  const auto at = object_.find(std::string(key));
  fail(kKeysReader, where_, ": key \"", key, "\": ", expected, "; found ", at == object_.end() ? "none" : shown(*at));
}

int64_t Keys::whole(std::string_view key, int64_t usual) { return find(key) == nullptr ? usual : whole(key); }

int64_t Keys::whole(std::string_view key) {
  const io::Json* const found = find(key);
  const bool fits = found != nullptr && (found->is_number_unsigned() ? found->get<uint64_t>() <= uint64_t{INT64_MAX}
                                                                     : found->is_number_integer());
  if (!fits) refuse(key, "a whole number");
  return found->get<int64_t>();
}

int64_t Keys::token(std::string_view key, int64_t usual) {
  const io::Json* const found = find(key);
  if (found == nullptr || !found->is_array()) return whole(key, usual);
  if (found->size() != 1 || !found->front().is_number_integer()) refuse(key, "the id of one token");
  return found->front().get<int64_t>();
}

float Keys::number(std::string_view key, float usual) {
  const io::Json* const found = find(key);
  if (found == nullptr) return usual;
  if (!found->is_number()) refuse(key, "a number");
  return static_cast<float>(found->get<double>());
}

bool Keys::flag(std::string_view key, bool usual) {
  const io::Json* const found = find(key);
  if (found == nullptr) return usual;
  if (!found->is_boolean()) refuse(key, "true or false");
  return found->get<bool>();
}

std::string Keys::word(std::string_view key, std::string_view usual) {
  const io::Json* const found = find(key);
  if (found == nullptr) return std::string(usual);
  if (!found->is_string()) refuse(key, "a word");
  return found->get<std::string>();
}

Activation Keys::activation(std::string_view key, std::string_view usual) {
  const std::string name = word(key, usual);
  if (name == "relu") return Activation::relu;
  if (name == "gelu" || name == "gelu_python") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_python_tanh" || name == "gelu_fast" ||
      name == "gelu_accurate") {
    return Activation::gelu_tanh;
  }
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "tanh") return Activation::tanh;
  refuse(key, "relu, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, silu, swish or tanh");
}

std::vector<std::string> Keys::labels(int64_t usual) {
  std::vector<std::string> names;
  if (const io::Json* const found = find("id2label"); found != nullptr) {
    if (!found->is_object()) refuse("id2label", "an object of names");
    for (size_t id = 0; id < found->size(); ++id) {
      const auto at = found->find(std::to_string(id));
      const bool is_number = at != found->end() && at->is_number_integer();  // classes that are called 0, 1 and so on
      if (at == found->end() || !(at->is_string() || is_number)) refuse("id2label", "a name for each number from 0");
      names.push_back(is_number ? at->dump() : at->get<std::string>());
    }
  }
  const int64_t count = whole("num_labels", names.empty() ? usual : static_cast<int64_t>(names.size()));
  if (count < 1 || count > (int64_t{1} << 20)) refuse("num_labels", "1 to 2^20 classes");
  if (!names.empty() && count != static_cast<int64_t>(names.size())) {
    refuse("num_labels", "as many as id2label has");
  }
  while (static_cast<int64_t>(names.size()) < count) names.push_back("LABEL_" + std::to_string(names.size()));
  return names;
}

void Keys::expect(std::string_view key, bool value) {
  if (flag(key, false) != value) refuse(key, value ? "true" : "false");
}

void Keys::expect(std::string_view key, std::initializer_list<std::string_view> words) {
  if (find(key) == nullptr) return;
  const std::string found = word(key, "");
  if (std::find(words.begin(), words.end(), found) == words.end()) refuse(key, list_of(words));
}

std::string Keys::class_of(std::initializer_list<std::string_view> families,
                           std::initializer_list<std::string_view> known, bool own) {
  const io::Json& names = value("architectures");
  if (names.is_null()) return "Model";
  if (!names.is_array() || names.empty() || !names[0].is_string()) refuse("architectures", "a list of names");
  const std::string name = names[0].get<std::string>();
  bool of_family = false;
  for (const std::string_view family : families) {
    if (!name.starts_with(family)) continue;
    of_family = true;
    const std::string rest = name.substr(family.size());
    if (std::find(known.begin(), known.end(), rest) != known.end()) return rest;
  }
  if (own && !of_family) return "";
  refuse("architectures", std::string(*families.begin()) + " followed by one of " + list_of(known));
}

void Keys::finish() const {
  for (const auto& [key, value] : object_.items()) {
    require(read_.contains(key) || changes_nothing(key, value), kKeysReader, where_,
            ": keys that heed understands; found \"", key, "\": ", shown(value),
            " (it may change what the model computes; take it out if it does not)");
  }
}

}  // namespace heed::models
