// Text in, text out: a model paired with its tokenizers, loaded from one folder.
//
//   const heed::Translator translator = heed::Translator::load("demo/en-zh");
//   std::cout << translator.translate("Where is the station?").front().text << "\n";
//
// A pipeline never changes once it is loaded, and its copies share the weights: any number of threads may use one at
// once. Nothing is printed. A wrong folder, text or option throws heed::Error; a text that is only suspicious goes to
// TextOptions::on_warning.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"
#include "heed/generate.h"
#include "heed/inspect.h"
#include "heed/models.h"
#include "heed/text.h"

HEED_EXPORT_BEGIN
namespace heed {

// What happens to a text of more tokens than the model reads.
enum class TooLong {
  refuse,
  cut,   // its beginning is read
  split  // Translator::translate() cuts it where sentences end and joins their translations; others refuse it
};

// A warning about a text.
struct TextWarning {
  enum class Kind {
    cut,      // the model reads `count` of `total` tokens
    unknown,  // `count` of the text's `total` characters, half or more, are in no token of the vocabulary
    split,    // `total` tokens, translated in `count` parts
    window    // of a prompt's `total` tokens, the model reads the last `count`
  } kind = Kind::cut;
  int64_t text = 0;  // its place among the texts of the call
  int64_t count = 0;
  int64_t total = 0;
};
[[nodiscard]] std::string to_string(const TextWarning& warning);  // "1030 tokens, cut to 1023", say

// How texts are read. A text must be valid UTF-8.
struct TextOptions {
  TooLong too_long = TooLong::refuse;
  std::function<void(const TextWarning&)> on_warning = {};
  // The name of a text in errors, by its place in the call: "standard input, line 3", for example. Without this
  // function it is "text 3". A target (RecordOptions) has place 1.
  std::function<std::string(int64_t text)> name = {};
};

// Options of record().
struct RecordOptions {
  // The target text of an encoder-decoder; without it the model translates. Other models take none.
  std::optional<std::string> target = {};
  generate::BeamOptions search = {};  // of that translation
  // Of models that know several languages, as in TranslatorOptions. A given target then begins with its language.
  std::string source_language = {}, target_language = {};
  TextOptions text = {};
  // A text of more tokens than this is recorded in groups of neighbouring tokens, at most `most_groups` of them, as
  // inspect::PooledRecorder has them: the weights between all tokens are never in memory. 0 groups are 256, or fewer
  // where all maps together would have more than inspect::kWeightsOfAPage.
  int64_t pool_above = std::numeric_limits<int64_t>::max();
  int64_t most_groups = 0;
  // Called where the text is recorded in groups, with the tokens and the groups of the longer side.
  std::function<void(int64_t tokens, int64_t groups)> on_pooled = {};
  // Called with the number of attention weights before they are computed, and with how many of them a causal mask sets
  // to 0. It may throw to refuse them.
  std::function<void(int64_t weights, int64_t masked)> on_size = {};
};

struct Translation {
  std::string text;
  double score = 0;                 // what translations are ranked by: see generate::BeamOptions, scores too
  bool finished = false;            // ended by itself, not by the limit of its length
  std::vector<std::string> tokens;  // as a reader should see them: "▁Where", "车"
  std::vector<float> log_probs;     // of each token, and of the end where it was reached
};

struct TranslatorOptions {
  generate::BeamOptions search = {};  // beam, n_best, lengths; its stop() ends the work early
  int64_t batch_tokens = 0;           // as of generate::TranslateOptions
  KeyValueCache::Options cache = {};  // how keys and values are kept between tokens
  // Where translations are delivered one by one: the texts that are translated before the first one is. Few are soon
  // done; many share batches.
  int64_t first_group = 16;
  // Of models that know several languages: their tokens, as the vocabulary spells them ("fra_Latn", "fr_XX", "fr").
  // Empty: what the folder says.
  std::string source_language = {}, target_language = {};
  // Special tokens in a text are tokens ("<extra_id_0>" of T5), not text. Tokenizers of heed's own models cannot find
  // them.
  bool parse_special = false;
  TextOptions text = {};
  std::function<void(int64_t done)> progress = {};  // texts translated so far, some of them not yet delivered
};

// An encoder-decoder that reads one language and writes another.
class Translator {
 public:
  // A folder that `heed train` or models::save() and Tokenizer::save() have written, or one of Hugging Face, whose
  // generation_config.json then holds: tokens that may not or must occur, and, where options.search does not
  // name them, the length penalty and when a search stops. Its weights are packed in that format. Throws Error
  // where it holds another kind of model, or tokenizers that do not fit.
  [[nodiscard]] static Translator load(const std::filesystem::path& name, WeightFormat weights = WeightFormat::f32);

  // One text: its n_best translations, the best first. An empty text has one empty translation.
  [[nodiscard]] std::vector<Translation> translate(std::string_view text, const TranslatorOptions& options = {}) const;
  // Many: a list for each, in their order.
  [[nodiscard]] std::vector<std::vector<Translation>> translate(std::span<const std::string> texts,
                                                                const TranslatorOptions& options = {}) const;
  [[nodiscard]] std::vector<std::vector<Translation>> translate(std::initializer_list<std::string> texts,
                                                                const TranslatorOptions& options = {}) const {
    return translate(std::span(texts.begin(), texts.size()), options);
  }
  // Many, handed to `deliver` in their order as they are done: the first after a few texts, later ones in groups of
  // some hundred a thread, whose texts of equal length share batches. No translation depends on its neighbours. If a
  // text is refused, the translations before it are delivered before the Error. Returns how many were delivered: all,
  // unless options.search.stop() ended the work.
  //
  // With TooLong::split, a text that is too long is cut where its sentences end; a sentence that is too long at its
  // commas, else at spaces, else between tokens. Each part is translated as if it were alone. Between translations
  // stands the white space of the text; none beside Chinese and Japanese characters. The k-th best translation of the
  // text is that of all parts; its score is the mean of theirs, and its log probabilities have the end of each part.
  int64_t translate(std::span<const std::string> texts, const TranslatorOptions& options,
                    const std::function<void(int64_t text, std::vector<Translation> translations)>& deliver) const;

  // The most texts that are translated together with these options.
  [[nodiscard]] static int64_t largest_group(const TranslatorOptions& options);

  // Who attends to whom while the model writes the target of `source`. Throws Error for an empty source.
  [[nodiscard]] inspect::Record record(std::string_view source, const RecordOptions& options = {}) const;

  // The ids that the encoder reads: the text's tokens and the end id, as in training, or what the tokenizer puts around
  // a text. An empty text has no ids. Of the options, the languages and `text` count.
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text, const TranslatorOptions& options = {}) const;
  // The languages that TranslatorOptions may name, and what the folder says where they name none ("": nothing). Both
  // lists are empty where the vocabulary has no special tokens for languages.
  struct Languages {
    std::vector<std::string> source = {}, target = {};
    std::string usual_source = {}, usual_target = {};
    bool needs_target = false;  // a translation must name its language, because the folder does not
  };
  [[nodiscard]] Languages languages() const;
  // The search as this model needs it, whatever is asked. Throws Error where the model needs a target language, and
  // neither the options nor the folder name one; translate() and record() do so too.
  [[nodiscard]] generate::BeamOptions search(const TranslatorOptions& options) const;
  [[nodiscard]] const models::Transformer& model() const { return *model_; }
  [[nodiscard]] const text::Tokenizer& source_tokenizer() const { return *source_; }
  [[nodiscard]] const text::Tokenizer& target_tokenizer() const { return *target_; }

 private:
  // The special tokens around a source text, and whether there may be some inside.
  struct Around {
    text::Ids before, after;
    bool parse_special = false;
  };

  Translator() = default;
  [[nodiscard]] Around around(const TranslatorOptions& options) const;
  [[nodiscard]] text::Ids read(std::string_view text, int64_t place, const TextOptions& options, const Around& around,
                               const char* function) const;
  [[nodiscard]] bool says_nothing(std::string_view text) const;
  struct Source;
  [[nodiscard]] Source read_in_parts(std::string_view text, int64_t place, const TextOptions& options,
                                     const Around& around) const;
  [[nodiscard]] int64_t longest(const Around& around) const;
  [[nodiscard]] int32_t usual_begin() const;
  [[nodiscard]] bool begins_with_language() const;
  [[nodiscard]] bool needs_language(const generate::BeamOptions& search) const;
  void require_language(const generate::BeamOptions& search) const;

  std::shared_ptr<const models::Transformer> model_;
  std::shared_ptr<const text::Tokenizer> source_, target_;
  Around around_;
  int64_t longest_ = 0;                            // tokens of a text, special ones included
  std::optional<generate::BeamOptions> settings_;  // of the folder, if it is one of Hugging Face
  // What the decoder can be told to write, in a model of a family that must be told.
  std::vector<int32_t> target_languages_;
};

struct Generation {
  std::string text;       // what was added to the prompt
  bool finished = false;  // the model ended the text
  std::vector<std::string> tokens;
  std::vector<float> log_probs;  // of each token, and of the end where it was reached
};

struct GeneratorOptions {
  generate::SamplingOptions sampling = {};
  bool ignore_end = false;  // go on where the model ends the text
  TextOptions text = {};
  // Gets the new text, piece by piece as it is made; return false to stop. (With a SentencePiece model the first piece
  // begins with the space between the prompt and Generation::text.)
  std::function<bool(std::string_view piece)> on_text = {};
};

// A decoder-only model that continues texts.
//
//   const heed::Generator generator = heed::Generator::load("runs/shakespeare");
//   std::cout << generator.generate("ROMEO:", {.sampling = {.temperature = 0.8, .seed = 7}}).text;
//
// The same seed gives the same text.
class Generator {
 public:
  [[nodiscard]] static Generator load(const std::filesystem::path& folder,
                                      WeightFormat weights = WeightFormat::f32);  // errors as of Translator

  // An empty prompt starts a text as the training's texts start. If a prompt is longer than the model's window, its end
  // is read, with a warning.
  [[nodiscard]] Generation generate(std::string_view prompt, const GeneratorOptions& options = {}) const;
  // Who attends to whom while the model reads `text`, and the likeliest next token at each place.
  [[nodiscard]] inspect::Record record(std::string_view text, const RecordOptions& options = {}) const;

  [[nodiscard]] const models::Gpt& model() const { return *model_; }
  [[nodiscard]] const text::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  Generator() = default;
  std::shared_ptr<const models::Gpt> model_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
};

struct EncoderOptions {
  // Tokens in a batch at most, padding included. 0: 384, or 256 where weights are packed as int8.
  int64_t batch_tokens = 0;
  // Of embed(), classify() and class_logits(): the name of the prompt that stands in front of each text (of a pair, of
  // the first one), "query" for example. Empty: the one that the model names as its default, which as a rule is none.
  std::string prompt = {};
  std::optional<std::string> prompt_text = {};  // the prompt itself, in place of its name
  // Of encode(), embed(), classify() and class_logits(): a limit of tokens in place of Encoder::longest(), at most the
  // positions of the model. 0: none.
  int64_t longest = 0;
  // "[SEP]" in a text is the special token of the vocabulary, not five characters. For models of others that come with
  // such a tokenizer.
  bool parse_special = false;
  TextOptions text = {};
  // Told by the same three how many texts are done. It may throw to end the work.
  std::function<void(int64_t done)> progress = {};
};

// The states of one text: a row for each token, with those that stand around it ("[CLS]", "</s>").
struct Encoding {
  std::vector<std::string> tokens;
  Tensor states;  // (L, E)
};

// A text, and a second one where the model compares two: a question and a passage.
struct TextPair {
  std::string text;
  std::optional<std::string> pair = {};
};

struct Classification {
  std::string label;          // the likeliest one
  float score = 0;            // its probability; see Encoder::classify()
  std::vector<float> scores;  // of each of Encoder::labels()
};

struct TokenClass {
  std::string token;  // as a reader should see it
  text::Span span;    // its bytes in the text
  std::string label;  // the likeliest one
  float score = 0;    // its probability
};

struct AnswerOptions {
  int64_t count = 1;            // answers, the best first
  int64_t longest_answer = 15;  // tokens
  bool may_be_none = false;     // "there is no answer" is one of them
  // A long passage is read in several windows. `window`: tokens of the question and of the passage in one window,
  // special ones included, at most what the model reads. `overlap`: tokens that two neighbours share.
  int64_t window = 384, overlap = 128;
  TextOptions text = {};  // of the question, text 0, and the passage, text 1; a question that is too long is refused
  std::function<void()> on_window = {};  // called before each window; it may throw to end the work
};
// Words of a passage that answer a question.
struct Answer {
  std::string text;
  text::Span span;  // its bytes in the passage; none: from 0 to 0
  float score = 0;  // the probability of its first token times that of its last one, in its window
};

struct FillOptions {
  int64_t count = 5;  // tokens for each place, or all where there are fewer
  TextOptions text = {};
};
struct Filling {
  int32_t id = 0;
  std::string token;  // as text; with the space before it, where that is a part of the token
  float probability = 0;
};

// An encoder-only model: text in, vectors, classes or missing words out.
//
//   const heed::Encoder encoder = heed::Encoder::load("sentence-transformers/all-MiniLM-L6-v2");
//   const heed::Tensor vectors = encoder.embed(texts);  // (number of texts, E)
//
// No result depends on the other texts of a call, nor on the batches: every one has the bits that it has alone.
class Encoder {
 public:
  // A folder that heed or Hugging Face's tools have written, or "ORG/NAME" for one that those have downloaded; errors
  // as of Translator.
  [[nodiscard]] static Encoder load(const std::filesystem::path& name, WeightFormat weights = WeightFormat::f32);

  [[nodiscard]] Encoding encode(std::string_view text, const EncoderOptions& options = {}) const;

  // A vector for each text: (number of texts, embedding_size()). It is what the folder's modules.json describes;
  // without one, the mean of the states of all tokens, special ones included.
  [[nodiscard]] Tensor embed(std::span<const std::string> texts, const EncoderOptions& options = {}) const;
  [[nodiscard]] int64_t embedding_size() const;
  // Whether texts are read in lower case, as sentence_bert_config.json may ask for ("do_lower_case").
  [[nodiscard]] bool lowercases() const;
  [[nodiscard]] int64_t longest() const;                   // the most tokens of a text, special ones included
  [[nodiscard]] std::vector<std::string> prompts() const;  // their names

  // The class of each text. Scores are probabilities that make 1 together; with one class only, or where config.json
  // says that several can be right ("multi_label_classification"), each is the probability of its own class. Where
  // config.json says that they are plain numbers ("regression", or a model that compares pairs), they are left as they
  // are. Throws Error for models without such a head.
  [[nodiscard]] std::vector<Classification> classify(std::span<const TextPair> texts,
                                                     const EncoderOptions& options = {}) const;
  [[nodiscard]] std::vector<Classification> classify(std::span<const std::string> texts,
                                                     const EncoderOptions& options = {}) const;
  // What those scores are made of: (number of texts, number of labels()).
  [[nodiscard]] Tensor class_logits(std::span<const TextPair> texts, const EncoderOptions& options = {}) const;
  // The class of each token but those that stand around the text. Throws Error for models without such a head.
  [[nodiscard]] std::vector<TokenClass> classify_tokens(std::string_view text,
                                                        const EncoderOptions& options = {}) const;
  [[nodiscard]] const std::vector<std::string>& labels() const { return model_->config().labels; }

  // Where the passage answers the question: runs of whole words, each once. Throws Error for models without such a head
  // (transformers' ForQuestionAnswering).
  [[nodiscard]] std::vector<Answer> answer(std::string_view question, std::string_view passage,
                                           const AnswerOptions& options = {}) const;

  // The likeliest tokens for each mask_token() in the text. There, and only there, special tokens that are written in a
  // text are special. Throws Error for a text without one, and for models that do not guess tokens.
  [[nodiscard]] std::vector<std::vector<Filling>> fill(std::string_view text, const FillOptions& options = {}) const;
  [[nodiscard]] const std::string& mask_token() const;  // "[MASK]" or "<mask>"; empty where the model has none

  // Throws what classify() (text_class), classify_tokens() (token_class) or fill() (masked_token) throws for a model of
  // another kind. It needs no text.
  void require_head(models::Head head) const;
  // The same for answer().
  void require_answers() const;

  [[nodiscard]] inspect::Record record(std::string_view text, const RecordOptions& options = {}) const;

  [[nodiscard]] const models::Bert& model() const { return *model_; }
  [[nodiscard]] const text::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  struct Parts;
  Encoder() = default;
  std::shared_ptr<const models::Bert> model_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const Parts> parts_;
};

// What kind of model the folder holds: which of the three classes above loads it.
[[nodiscard]] models::Architecture architecture_of(const std::filesystem::path& folder);
// The record() of that class.
[[nodiscard]] inspect::Record record_attention(const std::filesystem::path& folder, std::string_view text,
                                               const RecordOptions& options = {});

// How much of a text a tokenizer knows: characters that are not spaces, and those of them in no token of `ids`.
struct Coverage {
  int64_t characters = 0;
  int64_t unknown = 0;
  [[nodiscard]] bool mostly_unknown() const { return characters > 0 && 2 * unknown >= characters; }
};
[[nodiscard]] Coverage coverage(const text::Tokenizer& tokenizer, std::string_view text, std::span<const int32_t> ids);

}  // namespace heed
HEED_EXPORT_END
