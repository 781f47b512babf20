// A family: models that others trained, of one design. A file each says how config.json is read and what the weights
// are called.
#pragma once

#include <array>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/io.h"
#include "models/families/keys.h"

namespace heed::models {

// Our module or parameter, and theirs. "{}" stands for a layer's number. Of a module, the parameters' own names follow:
// weight and bias; a norm's gain is their weight.
struct Rename {
  std::string_view ours, theirs;
  int64_t part = 0;  // several of ours are one of theirs, one below the other: this one's place, of equal size each
};

struct Body {
  std::string_view prefix;  // in front of `names` in this file
  std::span<const Rename> names;
};

// What a family makes of a folder.
struct Design {
  Config config;
  // Looked through in this order. Each has its own prefix.
  std::vector<Body> names;
  // Tensors that a file may have and that change nothing: copies of tied ones, positions that are computed, heads of a
  // training that is over. "{}" as above; a "*" at the end stands for the rest of a name.
  std::vector<std::string> unused;
};

using Weights = io::Tensors;

// The names that BART and T5 give the embeddings of both sides, and those of each side, which may be copies.
inline constexpr const char* kSharedTable = "shared.weight";
inline constexpr const char* kEncoderTable = "encoder.embed_tokens.weight";
inline constexpr const char* kDecoderTable = "decoder.embed_tokens.weight";
// What most encoders call theirs.
inline constexpr const char* kWordTable = "embeddings.word_embeddings.weight";

// What the embeddings and the output above them are called: one table where config.json ties them.
struct TiedNames {
  std::string_view prefix, table, output;  // the prefix is the table's, where the file has it at all
};

struct Family {
  std::string_view model_type;  // in config.json
  Design (*read)(Keys& keys, const Weights& weights);
  TiedNames tied;
};

// What config.json, read as `object`, says about these weights. Throws Error for a family that heed does not know.
[[nodiscard]] Design read_design(const io::Json& object, const std::string& where, const Weights& weights);
// All tensors of a folder, under the names that transformers gives them today.
[[nodiscard]] Weights read_current_weights(const std::filesystem::path& folder);

[[nodiscard]] Design read_bert(Keys& keys, const Weights& weights);
[[nodiscard]] Design read_distilbert(Keys& keys, const Weights& weights);
[[nodiscard]] Design read_roberta(Keys& keys, const Weights& weights);
[[nodiscard]] Design read_mpnet(Keys& keys, const Weights& weights);
[[nodiscard]] Design read_modernbert(Keys& keys, const Weights& weights);
[[nodiscard]] Design read_marian(Keys& keys, const Weights& weights);
[[nodiscard]] Design read_m2m100(Keys& keys, const Weights& weights);
[[nodiscard]] Design read_bart(Keys& keys, const Weights& weights);
[[nodiscard]] Design read_t5(Keys& keys, const Weights& weights);

// `prefix` where some tensor's name starts with it, else "": files of a bare model have none.
[[nodiscard]] std::string_view prefix_in(const Weights& weights, std::string_view prefix);

// Whether the file's tensor of that name is there with other values than `other` has, or without it: then the two are
// not tied.
[[nodiscard]] bool differs(const Weights& weights, const std::string& name, const std::string& other);

// What Marian, M2M100, BART and mBART share: the keys of BART, and its names.
[[nodiscard]] Design bart_design(Keys& keys, const Weights& weights);

// The sizes of an encoder, and what holds for all of them. `keys` has BERT's names.
[[nodiscard]] Config encoder_config(Keys& keys);
// The body of BERT and of RoBERTa.
[[nodiscard]] std::span<const Rename> bert_body();
// What the four older encoders share: post-norm, learned positions, biases, GELU. `keys` has BERT's names.
[[nodiscard]] Config bert_config(Keys& keys);
// The head that RoBERTa and MPNet share; `prefix` is that of the body.
void set_roberta_head(Design& design, Keys& keys, std::string_view kind, std::string_view prefix,
                      const Weights& weights);
// Whether the head that guesses tokens has the table of the embeddings: where config.json says so, `config.tie_output`,
// and the file has no other values under `output`. (transformers 5 reads those, 4 reads the table.)
[[nodiscard]] bool is_tied(const Config& config, const Weights& weights, const std::string& output,
                           const std::string& table);
// Whether that head's bias is the one under `decoder`: where it has other values than the one under `head`, and where
// nothing is tied. (transformers 5 then reads no other; 4 takes both names for one bias.)
[[nodiscard]] bool has_decoder_bias(Keys& keys, const Weights& weights, const std::string& decoder,
                                    const std::string& head);
inline constexpr std::string_view kClassifierName = "classifier.", kAnswerName = "qa_outputs.";
// What the names of a family's heads begin with: of the one that guesses tokens, and of the others.
struct HeadNames {
  std::string_view masked;
  std::array<std::string_view, 3> others = {kClassifierName, kAnswerName};
};
inline constexpr HeadNames kRobertaHeads{.masked = "lm_head."};  // MPNet's, too
// Keys::class_of() of an encoder. "Model" where no tensor belongs to a head: sentence-transformers' folders name the
// class that the encoder was first trained as (all-mpnet-base-v2), and transformers' AutoModel does not look at the
// name either. So a class may be its author's own (Contriever, for example); with a head such a class is refused. Where
// the file names no class, its head says which it is; one that tells classes could be of texts or of tokens, and is
// refused.
[[nodiscard]] std::string encoder_class(Keys& keys, std::initializer_list<std::string_view> families,
                                        std::initializer_list<std::string_view> known, const Weights& weights,
                                        const HeadNames& heads);
// Heads of other trainings may stand in a file beside that of its class.
void ignore_other_heads(Design& design, const HeadNames& heads, std::string_view kind);
// Takes the head from the class's name: "ForMaskedLM" and so on.
void set_head(Config& config, Keys& keys, std::string_view class_name);

}  // namespace heed::models
