// Models: configurations, the three architectures built from the same blocks, and folders on disk.
//
// A model's forward functions are const and may be called by several threads at once; training is one thread's
// business.
//
//   auto model = models::load("demo/en-zh");
//   auto& transformer = dynamic_cast<const models::Transformer&>(*model);
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/export.h"
#include "heed/nn.h"

HEED_EXPORT_BEGIN
namespace heed::models {

enum class Architecture { encoder_decoder, decoder_only, encoder_only };
enum class NormPlacement { post, pre };  // LayerNorm(x + Sublayer(x)) as in the paper, or x + Sublayer(LayerNorm(x))
// alibi: nothing is added to the tokens; self-attention prefers what is near, and so reads texts longer than those of
// the training (Press et al. 2022). For decoder-only models. rotary: nothing is added to the tokens; the queries and
// keys of self-attention are turned by an angle that grows with the position (Su et al. 2021).
enum class Positions { sinusoidal, learned, alibi, rotary, none };
// What stands above the last layer of an encoder-only model: a guess of each masked token, of a text's class, of each
// token's class, or nothing (the model gives states).
enum class Head { masked_token, text_class, token_class, none };
// The state that stands for a text before its class is guessed: that of its first token, or the mean of all.
enum class Pooling { first, mean };
// What becomes of the numbers of a text's classes: probabilities that make 1 together (of a single class, its
// probability), the probability of each class by itself, or nothing.
enum class Scores { probabilities, independent, raw };

[[nodiscard]] std::string_view to_string(Architecture architecture);

struct Config {
  Architecture architecture = Architecture::encoder_decoder;
  int64_t source_vocabulary = 0;  // encoder side; decoder-only models have none
  int64_t target_vocabulary = 0;  // decoder side; encoder-only models have none
  int64_t encoder_layers = 6;
  int64_t decoder_layers = 6;
  int64_t width = 512;          // E
  int64_t feed_forward = 2048;  // F
  int64_t heads = 8;            // H
  int64_t key_value_heads = 0;  // Hkv; 0: H
  int64_t head_size = 0;        // D; 0: E / H
  int64_t value_size = 0;       // Dv; 0: D
  Activation activation = Activation::relu;
  NormPlacement norm_placement = NormPlacement::post;
  nn::NormKind norm = nn::NormKind::layer_norm;
  float norm_epsilon = 1e-5f;
  bool final_norm = false;  // a norm after each stack; pre-norm models want it
  bool bias = true;         // in linear layers and norms
  Positions positions = Positions::sinusoidal;
  nn::PositionLayout position_layout = nn::PositionLayout::interleaved;
  int64_t first_position = 0;
  int64_t max_length = 1024;      // longest sequence; the size of the table when positions are learned
  bool scale_embedding = true;    // by sqrt(E)
  bool share_embeddings = false;  // one table for source and target: one vocabulary
  bool tie_output = true;         // output projection = transposed target embedding
  bool output_bias = false;
  float dropout = 0.1f;             // residual, embeddings
  float attention_dropout = 0.0f;   // on the weights
  float activation_dropout = 0.0f;  // inside the feed-forward
  int64_t padding_id = 0;
  int64_t begin_id = 1;
  int64_t end_id = 2;
  int64_t unknown_id = 3;
  int64_t mask_id = -1;  // encoder-only training; -1: none

  // What models of others have besides. heed writes these keys only where they differ from the defaults.
  bool zero_padding = true;         // the padding's token vector is zero; else it is as the weights say
  int64_t token_types = 0;          // rows of a table whose row 0, or that of the token's type, is added; 0: no table
  bool embedding_norm = false;      // a norm above the embedding; post-norm encoder-only models have one in any case
  bool first_norm = true;           // the norm before the first layer's attention; ModernBERT has none
  bool final_dropout = false;       // `dropout` above the final norm, too, as T5 has it
  bool gated = false;               // feed-forward (act(x W1) * (x Wg)) W2 (Shazeer 2020)
  float attention_scale = 0;        // of the scores; 0: 1 / sqrt(D)
  float output_scale = 1;           // the states are multiplied by it before the output
  int64_t relative_buckets = 0;     // a bias by distance in buckets, one table a stack (Raffel et al. 2020); 0: none
  int64_t relative_distance = 128;  // keys this far away and farther share a bucket
  float rotary_base = 10000;        // of the angles of rotary positions
  float local_rotary_base = 10000;  // the same of the layers with a window
  int64_t window = 0;               // encoder layers with a window see so many tokens to each side; 0: no windows
  int64_t global_every = 1;         // of the encoder's layers, 0, n, 2n, ... have no window
  Head head = Head::masked_token;   // of encoder-only models
  std::vector<std::string> labels = {};           // the classes that such a head tells apart
  bool head_hidden = true;                        // a layer of its own below the classes
  Activation head_activation = Activation::none;  // of that layer; none: `activation`
  bool head_norm = false;                         // a norm above that layer; a masked-token head has one in any case
  Pooling head_pooling = Pooling::first;
  Scores scores = Scores::probabilities;  // of a head that tells classes of texts

  // Throws Error, naming the field, for sizes that do not fit together.
  void validate() const;
};

// "tiny" (4+4 layers, E 128, F 256, 4 heads), "small" (3+3, 256, 1024, 8), "base" (6+6, 512, 2048, 8) and "big" (6+6,
// 1024, 4096, 16; dropout 0.3) as in the paper, table 3. Throws Error for another name.
[[nodiscard]] Config preset(std::string_view name, Architecture architecture = Architecture::encoder_decoder);

// JSON text of a configuration and back. Unknown keys, wrong types and unknown words are errors naming the key.
[[nodiscard]] std::string to_json(const Config& config);
[[nodiscard]] Config config_from_json(std::string_view json, const std::string& where = "config.json");

struct Origin;

class Model : public nn::Module {
 public:
  [[nodiscard]] const Config& config() const { return config_; }
  // Where the model came from, if others wrote its folder: save() then writes their layout. Null: heed's own.
  [[nodiscard]] const std::shared_ptr<const Origin>& origin() const { return origin_; }
  void set_origin(std::shared_ptr<const Origin> origin) { origin_ = std::move(origin); }

 protected:
  explicit Model(const Config& config) : config_(config) { config_.validate(); }
  Config config_;

 private:
  std::shared_ptr<const Origin> origin_;
};

// A model that is decoded step by step: step() takes the tokens just chosen and returns the logits of the next ones.
// Rows are hypotheses; reorder() copies and drops them.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // tokens (N, L) i32: the next L tokens of each row (L > 1 for a prompt). Returns the logits after the last, (N, V).
  [[nodiscard]] virtual Tensor step(const Tensor& tokens) = 0;
  // The same step for greedy search: ops::argmax of those logits, which a model may know without computing all.
  [[nodiscard]] virtual std::vector<int32_t> step_greedy(const Tensor& tokens, std::span<const uint8_t> excluded);
  // Row r goes on from what row rows[r] was; rows.size() rows remain.
  virtual void reorder(std::span<const int64_t> rows) = 0;
  // Where steps_some(): a step of `rows` alone, tokens (rows.size(), 1). It may be called again for other rows; before
  // the next step all rows that took none must be given up by a reorder(). Returns logits (rows.size(), V).
  [[nodiscard]] virtual bool steps_some() const { return false; }
  [[nodiscard]] virtual Tensor step_some(std::span<const int64_t> rows, const Tensor& tokens);
  // step_some(), or step() where `rows` is empty, for those who need each row's logits for a moment only: use() gets
  // the logits (n, V) of n rows from `first` on, n as small as pays, so that a large vocabulary takes little memory.
  // Where use() throws, the step is taken all the same.
  using UseLogits = std::function<void(int64_t first, const Tensor& logits)>;
  virtual void step_by_parts(std::span<const int64_t> rows, const Tensor& tokens, const UseLogits& use);
  [[nodiscard]] virtual int64_t vocabulary() const = 0;
};

// The original encoder-decoder. Vaswani et al. 2017, section 3.1 and figure 1.
class Transformer : public Model {
 public:
  explicit Transformer(const Config& config, uint64_t seed = 0);
  ~Transformer() override;

  // source (B, S) i32, padded on the right; lengths (B) i32. -> (B, S, E)
  [[nodiscard]] Value encode(const Tensor& source, const Tensor& source_lengths) const;
  // target (B, L) i32 starting with the begin id; each position sees those up to its own. -> logits (B, L, V)
  [[nodiscard]] Value decode(const Tensor& target, const Value& memory, const Tensor& source_lengths) const;
  [[nodiscard]] Value forward(const Tensor& source, const Tensor& source_lengths, const Tensor& target) const;
  // cross_entropy(forward(source, source_lengths, target), expected), expected (B, L) i32, without holding the logits.
  [[nodiscard]] Value loss(const Tensor& source, const Tensor& source_lengths, const Tensor& target,
                           const Tensor& expected, const CrossEntropyOptions& options = {}) const;
  // The logits (B, L, V) if the decoder's layers ended with these states (B, L, E): the "logit lens" (nostalgebraist
  // 2020), for states that a probe saw (heed/probe.h).
  [[nodiscard]] Value logits_of(const Value& states) const;
  // For decoding with a cache: encodes once, then one step at a time, `copies` rows for each source (the beam).
  [[nodiscard]] std::unique_ptr<Decoder> start(const Tensor& source, const Tensor& source_lengths, int64_t copies = 1,
                                               const KeyValueCache::Options& cache = {}) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Decoder-only: GPT style. Radford et al. 2019.
class Gpt : public Model {
 public:
  explicit Gpt(const Config& config, uint64_t seed = 0);
  ~Gpt() override;
  [[nodiscard]] Value forward(const Tensor& tokens) const;  // (B, L) i32 -> logits (B, L, V)
  // cross_entropy(forward(tokens), expected), expected (B, L) i32, without holding the logits.
  [[nodiscard]] Value loss(const Tensor& tokens, const Tensor& expected, const CrossEntropyOptions& options = {}) const;
  [[nodiscard]] Value logits_of(const Value& states) const;  // as of Transformer
  // For decoding with a cache: step() first gets the prompt (N, L).
  [[nodiscard]] std::unique_ptr<Decoder> start(const KeyValueCache::Options& cache = {}) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Encoder-only: BERT style. Devlin et al. 2019. `types` (B, L) i32 are those of the tokens, for models that have them:
// 0 in the first text of a pair and 1 in the second; undefined: all 0.
class Bert : public Model {
 public:
  explicit Bert(const Config& config, uint64_t seed = 0);
  ~Bert() override;
  // -> states (B, L, E). What stands at and behind a sequence's length is arbitrary.
  [[nodiscard]] Value encode(const Tensor& tokens, const Tensor& lengths, const Tensor& types = {}) const;
  // What the head guesses: logits of tokens (B, L, V), of a text's classes (B, labels), or of each token's classes
  // (B, L, labels). Throws Error for Head::none.
  [[nodiscard]] Value forward(const Tensor& tokens, const Tensor& lengths, const Tensor& types = {}) const;
  // cross_entropy(forward(tokens, lengths), expected), expected (B, L) i32, or (B) of texts' classes. Of masked tokens
  // it computes only the logits that are needed.
  [[nodiscard]] Value loss(const Tensor& tokens, const Tensor& lengths, const Tensor& expected,
                           const CrossEntropyOptions& options = {}, const Tensor& types = {}) const;
  [[nodiscard]] Value logits_of(const Value& states) const;  // as of Transformer
  // The logits of states that encode() gave, (..., E): only those that are needed of a long text.
  [[nodiscard]] Value head_logits(const Value& states) const;
  // The mean of the states that are not padding: (B, E).
  [[nodiscard]] Value embed(const Tensor& tokens, const Tensor& lengths) const;
  // (B, E): the state that Config::head_pooling chooses, through the head's own layer. BERT's "pooler output".
  [[nodiscard]] Value pooled(const Tensor& tokens, const Tensor& lengths, const Tensor& types = {}) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

[[nodiscard]] std::unique_ptr<Model> create(const Config& config, uint64_t seed = 0);

// Folder: config.json and model.safetensors (and the tokenizer's files, see text.h). Loading checks names, shapes and
// dtypes of every tensor (f32; f16 and bf16 are converted to f32) against the configuration, that no weight is NaN or
// infinite, and the checksum that save() wrote.
void save(const Model& model, const std::filesystem::path& folder);
// The same in the layout of Hugging Face's transformers, which then computes the same within rounding: an
// encoder-decoder as a Marian, an encoder-only model as a BERT, a decoder-only one as a GPT-2, or with ALiBi as an MPT.
// Throws Error, naming the field, for a model that they cannot express. A model that came in that layout is written as
// by save().
void save_huggingface(const Model& model, const std::filesystem::path& folder);
struct LoadOptions {
  // For inference alone: the weights of linear layers are kept packed, which saves time, in place of their rows. A
  // model that is trained or changed works as well; what is changed is unpacked first.
  bool packed = false;
  WeightFormat weights = WeightFormat::f32;  // of packed weights
};
[[nodiscard]] std::unique_ptr<Model> load(const std::filesystem::path& folder, const LoadOptions& options = {});
// The configuration alone. Of a folder that others wrote, the names in the file of weights count too; no number is
// read.
[[nodiscard]] Config read_config(const std::filesystem::path& folder);
void load_weights(Model& model, const std::filesystem::path& safetensors);

// Another tool's tensor names: where each of our parameters is found in a file.
struct NameMapping {
  struct Source {
    std::string name;       // in the file
    int64_t first_row = 0;  // of the part that is ours, where several are stacked; all rows from 0 by default
  };
  // Our parameter's path in a model of this configuration -> the place in the file. Throws Error for a path unknown
  // there.
  std::function<Source(const std::string& path, const Config& config)> find;
};
// The names CTranslate2 gives an encoder-decoder Transformer (stacked projections "linear_0").
[[nodiscard]] NameMapping ctranslate2_names();
void load_weights(Model& model, const std::filesystem::path& safetensors, const NameMapping& mapping);

// What a model costs. A multiply-add counts two.
struct Cost {
  int64_t parameters = 0;
  int64_t parameter_bytes = 0;
  int64_t forward_flops = 0;     // matrix products and attention, for the batch
  int64_t training_flops = 0;    // forward and backward
  int64_t activation_bytes = 0;  // kept for the backward pass, estimated
};
// 4 B E L (2 E + L): projections 8 B L E^2 and the two products 4 B L^2 E, whatever the number of heads.
[[nodiscard]] int64_t multi_head_attention_flops(int64_t batch, int64_t width, int64_t length);
// Throws Error where the multiply-adds of a batch are 1e18 or more.
[[nodiscard]] Cost cost(const Config& config, int64_t batch, int64_t source_length, int64_t target_length);

}  // namespace heed::models
HEED_EXPORT_END
