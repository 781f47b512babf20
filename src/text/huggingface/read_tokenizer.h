// Tokenizers of Hugging Face, read from the files that they come in.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/huggingface/fields.h"
#include "text/huggingface/tokenizer.h"

namespace heed::text::huggingface {

// Files of one folder, each read once and kept.
class TokenizerFiles {
 public:
  explicit TokenizerFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] std::string quoted(std::string_view name) const;
  // The file's bytes. They will be among the files that the tokenizer writes.
  const std::string& read(std::string_view name);
  const io::JsonValue& read_json(std::string_view name);
  [[nodiscard]] std::vector<KeptFile> kept() const;
  // A text of the model's config.json, or nothing. The file is not among those that the tokenizer writes.
  [[nodiscard]] std::string in_config(std::string_view key) const;
  // Its "vocab_size"; -1 where there is none.
  [[nodiscard]] int64_t vocabulary_in_config() const;
  // Writes the class into the tokenizer_config.json that the tokenizer writes, which has none.
  void keep_class(std::string_view name);

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::string, std::less<>> bytes_;
  std::map<std::string, io::JsonValue, std::less<>> documents_;
};

// Special tokens by what they are for, in the order in which transformers adds them to a vocabulary.
enum class Role { begin, end, unknown, separator, padding, classifier, mask };
constexpr size_t kRoles = 7;
using RoleTokens = std::array<std::optional<AddedToken>, kRoles>;
[[nodiscard]] AddedToken special_token(std::string_view content, bool lstrip = false);

// What tokenizer_config.json, special_tokens_map.json and added_tokens.json say, where they are there.
struct Configuration {
  // Of begin and end: what the files call so, or else the tokens for classes and between texts.
  std::optional<std::string> padding = {}, begin = {}, end = {}, unknown = {};
  RoleTokens roles = {};
  std::vector<AddedToken> added = {};    // with the ids that the files give them
  bool added_have_flags = false;         // "lstrip" and the like; added_tokens.json has none
  std::vector<AddedToken> further = {};  // special ones without ids, which follow the vocabulary
  std::string added_file = {};           // quoted: where `added` stands
  std::string tokenizer_class = {};
  std::string class_file = {};  // quoted: where the class stands, or would stand
  bool lowercase = true, split_chinese = true, add_prefix_space = false;
  bool trims_offsets = true;  // RoBERTa: spans leave out the space before a word
  std::optional<bool> strip_accents = {};
  std::optional<bool> with_segments = {};   // whether "model_input_names" has token types
  bool add_begin = false, add_end = false;  // GPT-2 without a tokenizer.json
  std::optional<bool> cuts_left = {};       // a text that is too long loses its beginning
  // Of translators that know several languages.
  std::optional<std::string> source_language = {}, language_codes = {};
  bool language_behind = false;           // NLLB's "legacy_behaviour"
  std::optional<int64_t> extra_ids = {};  // T5's special tokens behind the pieces
  bool legacy = true;                     // false: text behind a special token is cut in another way
};
// The class that transformers names, without the "Fast" of its older versions.
[[nodiscard]] std::string class_name(const Configuration& configuration);
// That class, or else the one that transformers takes for the model_type of config.json. May be empty.
[[nodiscard]] std::string usual_class(const TokenizerFiles& files, const Configuration& configuration);
// BERT's tokenizer, under this name or another: the files' flags decide how texts are normalised.
[[nodiscard]] bool is_bert_class(std::string_view name);
[[nodiscard]] bool is_roberta_class(std::string_view name);
[[nodiscard]] Configuration read_configuration(TokenizerFiles& files);

// The special tokens that a class has where no file names others.
[[nodiscard]] RoleTokens usual_roles(std::string_view class_name);
// A special token that the configuration names and the vocabulary lacks: counted, with the next id, or only where other
// tokens get ids behind it.
enum class RolesBeyond { counted, where_followed };
// Adds the configuration's tokens that `made` lacks, with their ids; `usual` are those of the class. Throws Error for
// ids that do not follow the vocabulary.
void add_configured_tokens(std::vector<AddedToken>& made, const Configuration& configuration, const TokenTable& tokens,
                           const RoleTokens& usual, RolesBeyond beyond);

// What the classes of BERT, MPNet and RoBERTa put around texts; nothing for other classes. `file`: for messages.
[[nodiscard]] std::optional<PostProcessor> surroundings(std::string_view class_name, const TokenizerParts& parts,
                                                        const TokenTable& tokens, const Configuration& configuration,
                                                        const std::string& file);

// Ids by the configuration's names, or else by the tokens around a text, the model's unknown one and the padding of the
// class; and which end of a long text is cut.
void use_configuration(TokenizerParts& parts, const Configuration& configuration, std::string_view class_name);

// Token types reach the model where "model_input_names" has them, or else where the class does: those of RoBERTa, MPNet
// and DistilBERT have none, nor has the one that transformers 5 writes for any other. Without them its models take 0
// for every token.
void use_input_names(TokenizerParts& parts, TokenizerFiles& files, const Configuration& configuration);

// `name`: "tokenizer.json" as a rule.
[[nodiscard]] std::shared_ptr<const Tokenizer> read_tokenizer_json(TokenizerFiles& files, std::string_view name);
// vocab.json: an id for each token, one at least.
[[nodiscard]] TokenTable read_vocabulary(TokenizerFiles& files, std::string_view vocabulary);
enum class WordPieceKind { bert, mpnet };  // MPNet has the special tokens of RoBERTa
[[nodiscard]] std::shared_ptr<const Tokenizer> read_wordpiece(TokenizerFiles& files, std::string_view name,
                                                              const Configuration& configuration,
                                                              WordPieceKind kind = WordPieceKind::bert);
// by_vocabulary: RoBERTa's where the vocabulary has <s>, </s> and <mask>, else GPT-2's.
enum class BpeKind { by_vocabulary, gpt2, roberta };
[[nodiscard]] std::shared_ptr<const Tokenizer> read_byte_level_bpe(TokenizerFiles& files, std::string_view vocabulary,
                                                                   std::string_view merges,
                                                                   const Configuration& configuration,
                                                                   BpeKind kind = BpeKind::by_vocabulary);
[[nodiscard]] std::shared_ptr<const Tokenizer> read_marian(TokenizerFiles& files, Side side,
                                                           const Configuration& configuration);
// A vocabulary of its own, and a token for each of 100 languages: one before the text, </s> behind it.
[[nodiscard]] std::shared_ptr<const Tokenizer> read_m2m100(TokenizerFiles& files, std::string_view name,
                                                           const Configuration& configuration);
// XLM-RoBERTa's ids, and a token for each language: before the text where there are 50, else behind its </s>.
enum class MBartKind { of_25_languages, of_50_languages };
[[nodiscard]] std::shared_ptr<const Tokenizer> read_mbart(TokenizerFiles& files, std::string_view name, MBartKind kind,
                                                          const Configuration& configuration);
// XLM-RoBERTa's ids: its model's, moved behind <s>, <pad>, </s> and <unk>.
[[nodiscard]] std::shared_ptr<const Tokenizer> read_xlm_roberta(TokenizerFiles& files, std::string_view name,
                                                                const Configuration& configuration);
// Four tokens before the model's: <s>NOTUSED, <pad>, </s>NOTUSED and <unk>.
[[nodiscard]] std::shared_ptr<const Tokenizer> read_camembert(TokenizerFiles& files, std::string_view name,
                                                              const Configuration& configuration);
// The model's own ids, and </s> behind the text (T5).
[[nodiscard]] std::shared_ptr<const Tokenizer> read_plain_sentencepiece(TokenizerFiles& files, std::string_view name,
                                                                        const Configuration& configuration);

}  // namespace heed::text::huggingface
