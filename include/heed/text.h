// Text: tokenizers (raw UTF-8 to ids and back), and batches of ids.
//
// Tokenizers are immutable once made: any number of threads may use one.
//
//   auto tokenizer = text::Tokenizer::load("demo/en-zh", text::Side::source);
//   std::vector<int32_t> ids = tokenizer->encode("Where is the station?");
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"
#include "heed/tensor.h"

HEED_EXPORT_BEGIN
namespace heed::text {

// Every tokenizer that heed makes has these four ids; a loaded tokenizer may have others.
struct SpecialIds {
  int32_t padding = 0;
  int32_t begin = 1;
  int32_t end = 2;
  int32_t unknown = 3;
};

enum class Side { source, target };

// Draws segmentations of a line: subword regularisation (Kudo 2018). A segmentation x has the probability
// p(x)^alpha / sum of p(y)^alpha over all segmentations y, where p is the unigram model's probability. Immutable, as a
// tokenizer is.
class SubwordSampler {
 public:
  virtual ~SubwordSampler() = default;
  // Pure: the same text, key and stream give the same ids, on every machine. Throws Error for invalid UTF-8.
  [[nodiscard]] virtual std::vector<int32_t> encode(std::string_view text, uint64_t key, uint64_t stream) const = 0;
};

using Ids = std::vector<int32_t>;

// Bytes begin to end - 1 of a text.
struct Span {
  int64_t begin = 0, end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

// Text as a model reads it. The vectors have one entry for each token.
struct Tokens {
  Ids ids;
  Ids segments;             // token type ids: 0 for the text and 1 for its pair, unless the tokenizer says otherwise
  std::vector<Span> spans;  // the bytes of the text, or of the pair, that the token stands for
  // The word that the token is of, from 0: what the tokenizer cuts a text into before it cuts words into tokens, where
  // it does so, or what begins with a space. The pair's words go on behind those of the text. -1: around the text.
  std::vector<int32_t> words;
  std::vector<uint8_t> special;  // 1: the tokenizer added it around the text, and its span is empty
  // 1: the token stands for bytes of the pair, not of the text. Empty where there is no pair.
  std::vector<uint8_t> of_pair;
  int64_t left_out = 0;  // tokens that did not fit the limit
};

struct TokensOptions {
  std::optional<std::string_view> pair = {};  // a second text: a hypothesis, an answer
  bool add_special = true;                    // what the model expects around the text: [CLS] and [SEP], <s> and </s>
  int64_t limit = 0;                          // most tokens, added ones included; 0: no limit
  bool parse_special = false;                 // "[SEP]" in the text is the special token, not five characters
  bool lowercase = false;                     // the text is read in lower case; special tokens in it keep their case
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Without begin and end. Throws Error for invalid UTF-8. Text that looks like a special token is plain text.
  [[nodiscard]] virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // The text with the special tokens around it that the model was trained with, and where each token stands. Throws
  // Error for invalid UTF-8, and where the tokenizer cannot do what is asked (heed's own ones know no pairs).
  [[nodiscard]] virtual Tokens tokens(std::string_view text, const TokensOptions& options = {}) const;
  // The id of a token as the vocabulary spells it: "[MASK]", "de_DE".
  [[nodiscard]] virtual std::optional<int32_t> id_of(std::string_view token) const;
  // Special ids are left out. Throws Error for an id outside the vocabulary.
  [[nodiscard]] virtual std::string decode(std::span<const int32_t> ids) const = 0;
  // One token as a reader should see it: "▁Where", "车", "<s>".
  [[nodiscard]] virtual std::string piece(int32_t id) const = 0;
  [[nodiscard]] virtual int64_t vocabulary() const = 0;
  [[nodiscard]] virtual SpecialIds special() const = 0;
  // "sentencepiece", "characters", "pieces", or of Hugging Face "wordpiece", "bpe", "unigram" or "wordlevel".
  [[nodiscard]] virtual std::string kind() const = 0;
  // Whether a text that is too long loses its beginning instead of its end.
  [[nodiscard]] virtual bool cuts_left() const { return false; }
  // alpha: above 0; the larger it is, the more often the most probable segmentation is drawn (encode() gives that one).
  // Only unigram models of SentencePiece have the probabilities that this needs; other tokenizers throw Error.
  [[nodiscard]] virtual std::shared_ptr<const SubwordSampler> sampler(double alpha) const;
  // Writes the tokenizer's files into `folder` for `side` (source.model / target.model, or source.vocab /
  // target.vocab). A tokenizer in files of Hugging Face writes back the bytes it was read from.
  virtual void save(const std::filesystem::path& folder, Side side) const = 0;
  // By what the folder has: the files that save() writes; tokenizer.json; source.spm, target.spm and vocab.json
  // (Marian); vocab.txt (BERT); vocab.json and merges.txt (GPT-2, RoBERTa); sentencepiece.bpe.model or spiece.model.
  [[nodiscard]] static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& folder, Side side);
};

struct SentencePieceOptions {
  int64_t vocabulary = 8000;
  bool bpe = false;  // else unigram (Kudo 2018)
  double character_coverage = 0.9998;
  uint64_t seed = 0;
  bool nearest = false;  // if the text does not allow this vocabulary, take the nearest size that it allows
};
// Trains on the lines. Prints nothing; takes seconds for megabytes. Throws Error for a vocabulary that is too large or
// too small for the text; with `nearest`, vocabulary() says which size was taken.
[[nodiscard]] std::shared_ptr<const Tokenizer> train_sentencepiece(std::span<const std::string> lines,
                                                                   const SentencePieceOptions& options);
[[nodiscard]] std::shared_ptr<const Tokenizer> load_sentencepiece(const std::filesystem::path& model);
// Hugging Face's tokenizer.json, with all its parts. Special ids come from tokenizer_config.json and
// special_tokens_map.json beside it, where they are there; -1 is none. A part of a kind that heed does not have is an
// Error that names those it has.
[[nodiscard]] std::shared_ptr<const Tokenizer> load_tokenizer_json(const std::filesystem::path& file);

struct WordPieceOptions {
  bool lowercase = true;
  std::optional<bool> strip_accents = {};  // as lowercase, where it is not given
  bool split_chinese = true;               // each ideograph is a word
};
// BERT's vocab.txt: a token a line, ids from 0.
[[nodiscard]] std::shared_ptr<const Tokenizer> load_wordpiece(const std::filesystem::path& vocabulary,
                                                              const WordPieceOptions& options = {});

struct ByteLevelBpeOptions {
  bool add_prefix_space = false;  // a text begins with a space, whether it does or not
};
// vocab.json and merges.txt of GPT-2, or of RoBERTa, whose vocabulary has <s>, </s> and <mask>.
[[nodiscard]] std::shared_ptr<const Tokenizer> load_byte_level_bpe(const std::filesystem::path& vocabulary,
                                                                   const std::filesystem::path& merges,
                                                                   const ByteLevelBpeOptions& options = {});
// Each distinct code point is a token.
[[nodiscard]] std::shared_ptr<const Tokenizer> train_characters(std::span<const std::string> lines);
// The text is already cut at spaces; "@@ " joins are undone by decode(). Pieces seen fewer than `minimum` times are
// unknown.
[[nodiscard]] std::shared_ptr<const Tokenizer> train_pieces(std::span<const std::string> lines, int64_t minimum = 1);
// A vocabulary with one token a line, ids from 0, and which of them are special.
[[nodiscard]] std::shared_ptr<const Tokenizer> vocabulary_tokenizer(std::vector<std::string> tokens, SpecialIds special,
                                                                    bool characters);

// The byte at which `text` stops being valid UTF-8, or text.size().
[[nodiscard]] size_t valid_utf8_prefix(std::string_view text);

// Reads lines, without their ends ("\n" or "\r\n"); plain or gzip (by content). Throws Error for a missing, unreadable
// or empty file, and for invalid UTF-8 with file name and line number.
[[nodiscard]] std::vector<std::string> read_lines(const std::filesystem::path& file);

// Sequences side by side, padded on the right.
struct Padded {
  Tensor ids;      // (B, L) i32
  Tensor lengths;  // (B) i32
};
[[nodiscard]] Padded pad(std::span<const Ids> sequences, int32_t padding_id);

}  // namespace heed::text
HEED_EXPORT_END
