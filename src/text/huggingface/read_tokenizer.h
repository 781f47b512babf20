// Tokenizers of Hugging Face, read from the files that they come in.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
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
  // What config.json says the model is, or nothing.
  [[nodiscard]] std::string model_type() const;

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::string, std::less<>> bytes_;
  std::map<std::string, io::JsonValue, std::less<>> documents_;
};

// What tokenizer_config.json and special_tokens_map.json say, where they are there.
struct Configuration {
  std::optional<std::string> padding = {}, begin = {}, end = {}, unknown = {};
  std::string tokenizer_class = {};
  bool lowercase = true, split_chinese = true, add_prefix_space = false;
  std::optional<bool> strip_accents = {};
  std::optional<bool> cuts_left = {};  // a text that is too long loses its beginning
  // Of translators that know several languages.
  std::optional<std::string> source_language = {}, language_codes = {};
  bool language_behind = false;  // NLLB's "legacy_behaviour"
};
// The class that transformers names, without the "Fast" of its older versions.
[[nodiscard]] std::string class_name(const Configuration& configuration);
[[nodiscard]] Configuration read_configuration(TokenizerFiles& files);

// Ids by the configuration's names, or else by the tokens around a text and the model's unknown one; and which end of a
// long text is cut.
void use_configuration(TokenizerParts& parts, const Configuration& configuration);

// `name`: "tokenizer.json" as a rule.
[[nodiscard]] std::shared_ptr<const Tokenizer> read_tokenizer_json(TokenizerFiles& files, std::string_view name);
// vocab.json: an id for each token, one at least.
[[nodiscard]] TokenTable read_vocabulary(TokenizerFiles& files, std::string_view vocabulary);
[[nodiscard]] std::shared_ptr<const Tokenizer> read_wordpiece(TokenizerFiles& files, std::string_view name,
                                                              const Configuration& configuration);
[[nodiscard]] std::shared_ptr<const Tokenizer> read_byte_level_bpe(TokenizerFiles& files, std::string_view vocabulary,
                                                                   std::string_view merges,
                                                                   const Configuration& configuration);
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
// The model's own ids, and </s> behind the text (T5).
[[nodiscard]] std::shared_ptr<const Tokenizer> read_plain_sentencepiece(TokenizerFiles& files, std::string_view name,
                                                                        const Configuration& configuration);

}  // namespace heed::text::huggingface
