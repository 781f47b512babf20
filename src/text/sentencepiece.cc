// SentencePiece (Kudo and Richardson 2018): trained on the lines in memory, kept as its serialised model.
//
// The text is taken as it is ("identity" normalisation, but runs of spaces become one): the library's default, NFKC,
// would turn full-width Chinese punctuation into ASCII, and what decode() gives back could not equal any reference.
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <unordered_map>

#include "base/files.h"
#include "heed/error.h"
#include "text/batches.h"
#include "text/sentencepiece_check.h"
#include "text/sentencepiece_cutter.h"
#include "text/subwords.h"
#include "text/tokenizers.h"
#include "text/utf8.h"

namespace heed::text {
namespace {

constexpr int64_t kMaxModel = int64_t{1} << 28;
constexpr size_t kMaxLines = 2'000'000;  // more lines are sampled: the vocabulary is as good
constexpr int64_t kMaxLineBytes = 65536;

// Without this the library writes messages to stderr. The only public way to set its level is an argument of Train().
// Called with nothing else, Train() sets the level and then fails for lack of input.
void silence() {
  static std::once_flag once;
  std::call_once(once, [] {
    (void)sentencepiece::SentencePieceTrainer::Train(
        std::unordered_map<std::string, std::string>{{"minloglevel", "3"}});
  });
}

// The library's messages begin with a place in its own source: "Internal: x.cc(1) [condition] text".
std::string reason(const sentencepiece::util::Status& status) {
  std::string text = status.ToString();
  if (const size_t at = text.rfind("] "); at != std::string::npos) text = text.substr(at + 2);
  return text;
}

class Lines : public sentencepiece::SentenceIterator {
 public:
  Lines(std::span<const std::string> lines, std::span<const int64_t> order) : lines_(lines), order_(order) { find(); }
  bool done() const override { return at_ >= order_.size(); }
  void Next() override {
    ++at_;
    find();
  }
  const std::string& value() const override { return lines_[static_cast<size_t>(order_[at_])]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void find() {
    while (!done() && value().empty()) ++at_;
  }
  std::span<const std::string> lines_;
  std::span<const int64_t> order_;
  size_t at_ = 0;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string model, const std::string& name, Around around)
      : model_(std::move(model)), around_(around) {
    silence();
    has_user_defined_ = check_sentencepiece(model_, name);
    const auto status = processor_->LoadFromSerializedProto(model_);
    require(status.ok(), "load_sentencepiece", name, ": a SentencePiece model; ", reason(status));
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    require_utf8(text, "encode");
    return cutter_->ids(text);
  }

  Tokens tokens(std::string_view text, const TokensOptions& options) const override {
    if (options.lowercase) return tokens_in_lower_case(*this, text, options);
    require_utf8(text, "encode");
    Tokens body;
    for (const SentencePieceCutter::Piece& piece : cutter_->pieces(text)) {
      const bool begins = body.ids.empty() || piece.spelling.starts_with(kSpaceMark);
      body.ids.push_back(piece.id);
      body.spans.push_back({piece.begin, piece.end});
      body.words.push_back((body.words.empty() ? -1 : body.words.back()) + (begins ? 1 : 0));
    }
    return with_begin_and_end(std::move(body), special(), options, around_);
  }

  std::optional<int32_t> id_of(std::string_view token) const override {
    const int id = processor_->PieceToId(token);
    if (id < 0 || id >= vocabulary() || processor_->IdToPiece(id) != token) return std::nullopt;
    return id;
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::vector<int> kept;
    for (const int32_t id : ids) {
      require_id(id, vocabulary(), "decode");
      if (!is_special(id, special())) kept.push_back(id);
    }
    std::string text;
    const auto status = processor_->Decode(kept, &text);
    require(status.ok(), "decode", "ids that SentencePiece can join; ", reason(status));
    return text;
  }

  std::string piece(int32_t id) const override {
    require_id(id, vocabulary(), "piece");
    return processor_->IdToPiece(id);
  }
  int64_t vocabulary() const override { return processor_->GetPieceSize(); }
  SpecialIds special() const override {
    return {processor_->pad_id(), processor_->bos_id(), processor_->eos_id(), processor_->unk_id()};
  }
  std::string kind() const override { return "sentencepiece"; }
  void save(const std::filesystem::path& folder, Side side) const override {
    save_tokenizer_file(folder, side, kSentencePieceEnding, model_);
  }

  std::shared_ptr<const SubwordSampler> sampler(double alpha) const override {
    std::vector<std::vector<int>> ids;
    require(processor_->NBestEncode("a", 1, &ids).ok(), "sampler",
            "a unigram model, whose pieces have probabilities; found a SentencePiece model of another type (bpe)");
    require(!has_user_defined_, "sampler", "a model without user-defined pieces, which may not be cut; found some");
    std::vector<UnigramSampler::Piece> pieces;
    for (int id = 0; id < processor_->GetPieceSize(); ++id) {
      require(!processor_->IsByte(id), "sampler", "a model without byte pieces; found ", processor_->IdToPiece(id));
      if (processor_->IsControl(id) || processor_->IsUnknown(id) || processor_->IsUnused(id)) continue;
      pieces.push_back({processor_->IdToPiece(id), id, static_cast<double>(processor_->GetScore(id))});
    }
    return std::make_shared<UnigramSampler>(
        pieces, special().unknown, alpha,
        [cutter = cutter_](std::string_view text) { return normalised(*cutter, text); });
  }

 private:
  // The text as its pieces spell it: spaces as "▁", and whatever else the model's normalisation does.
  static std::string normalised(const SentencePieceCutter& cutter, std::string_view text) {
    require_utf8(text, "encode");
    std::string joined;
    for (const SentencePieceCutter::Piece& piece : cutter.pieces(text)) joined += piece.spelling;
    return joined;
  }

  std::string model_;
  Around around_;
  bool has_user_defined_ = false;
  std::shared_ptr<sentencepiece::SentencePieceProcessor> processor_ =
      std::make_shared<sentencepiece::SentencePieceProcessor>();
  std::shared_ptr<const SentencePieceCutter> cutter_ =
      std::make_shared<SentencePieceCutter>(processor_);  // a sampler may outlive the tokenizer
};

enum class Limit { exact, at_most };

// One training of the library, with another vocabulary each time it is called.
struct Trainer {
  std::span<const std::string> lines;
  std::span<const int64_t> order;
  const SentencePieceOptions& options;

  sentencepiece::util::Status operator()(int64_t vocabulary, Limit limit, std::string& model) const {
    std::unordered_map<std::string, std::string> arguments = {
        {"minloglevel", "3"},
        {"model_type", options.bpe ? "bpe" : "unigram"},
        {"vocab_size", std::to_string(vocabulary)},
        {"character_coverage", std::to_string(options.character_coverage)},
        {"normalization_rule_name", "identity"},
        {"max_sentence_length", std::to_string(kMaxLineBytes)},
        {"num_threads", "2"},  // fixed: sums are made thread by thread, and the model must not depend on the machine
        {"pad_id", "0"},
        {"bos_id", "1"},
        {"eos_id", "2"},
        {"unk_id", "3"},
    };
    if (limit == Limit::at_most) arguments["hard_vocab_limit"] = "false";
    Lines iterator(lines, order);
    return sentencepiece::SentencePieceTrainer::Train(arguments, &iterator, &model);
  }
};

// The library's message "Vocabulary size is smaller than required_chars. 1000 vs 1264." is the only place that says how
// many pieces the characters of the text need. 0 where `status` is another error.
int64_t fewest_pieces(const sentencepiece::util::Status& status) {
  const std::string text = status.ToString();
  const size_t before = text.find("smaller than required_chars");
  const size_t at = before == std::string::npos ? before : text.find(" vs ", before);
  int64_t number = 0;
  if (at != std::string::npos) std::from_chars(text.data() + at + 4, text.data() + text.size(), number);
  return number;
}

// SentencePiece may throw anything derived from std::exception; heed throws Error.
template <class F>
auto guarded(const char* function, const std::string& expected, F&& f) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(function, expected, "; ", error.what());
  }
}

}  // namespace

std::shared_ptr<const Tokenizer> train_sentencepiece(std::span<const std::string> lines,
                                                     const SentencePieceOptions& options) {
  constexpr const char* kFunction = "train_sentencepiece";
  constexpr int64_t kFewest = 5, kMost = 10'000'000;
  const int64_t vocabulary = options.nearest ? std::clamp(options.vocabulary, kFewest, kMost) : options.vocabulary;
  require(vocabulary >= kFewest && vocabulary <= kMost, kFunction, "a vocabulary of 5 to 10,000,000 pieces; found ",
          vocabulary);
  require(options.character_coverage > 0.9 && options.character_coverage <= 1, kFunction,
          "a character coverage above 0.9 and at most 1; found ", options.character_coverage);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (valid_utf8_prefix(lines[i]) != lines[i].size())
      require_utf8(lines[i], kFunction, "line " + std::to_string(i + 1));
  }
  const bool any = std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find_first_not_of(" \t\r\n") != std::string::npos;
  });
  require(any, kFunction, "lines with text to train on; found none");

  // All lines in order, or a sample of them that depends on the seed.
  std::vector<int64_t> order(lines.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  if (order.size() > kMaxLines) {
    order = permutation(static_cast<int64_t>(lines.size()), options.seed, 0);
    order.resize(kMaxLines);
    std::sort(order.begin(), order.end());
  }
  return guarded(kFunction, "SentencePiece to do its work", [&]() -> std::shared_ptr<const Tokenizer> {
    silence();
    const Trainer train{lines, order, options};
    std::string model;
    auto status = train(vocabulary, Limit::exact, model);
    if (!status.ok() && options.nearest) {
      const int64_t fewest = fewest_pieces(status);
      if (fewest > vocabulary) status = train(fewest, Limit::exact, model);
      if (!status.ok()) status = train(std::max(fewest, vocabulary), Limit::at_most, model);
    }
    require(status.ok(), kFunction, "a vocabulary of ", vocabulary, " pieces from ", lines.size(), " lines; ",
            reason(status));
    return std::make_shared<SentencePieceTokenizer>(std::move(model), "the trained model", Around::both);
  });
}

std::shared_ptr<const Tokenizer> load_sentencepiece(const std::filesystem::path& model) {
  return load_sentencepiece_with(model, Around::both);
}

std::shared_ptr<const Tokenizer> load_sentencepiece_with(const std::filesystem::path& model, Around around) {
  std::string bytes = files::read_all(model, kMaxModel, "load_sentencepiece");
  return guarded("load_sentencepiece", files::quoted(model) + ": a SentencePiece model",
                 [&]() -> std::shared_ptr<const Tokenizer> {
                   return std::make_shared<SentencePieceTokenizer>(std::move(bytes), files::quoted(model), around);
                 });
}

}  // namespace heed::text
