// Reading text, holding back a part of it, training or loading tokenizers, and encoding.
#include "train/corpus.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/threads.h"
#include "heed/error.h"
#include "train/defaults.h"
#include "train/mapped_data.h"
#include "train/recipe_fields.h"
#include "train/token_cache.h"
#include "train/training_text.h"
#include "train/vocabulary_trainer.h"

namespace heed::train {

namespace {

struct Text {
  std::vector<std::string> source, target;  // parallel for translation; only source otherwise
};

Text read_parallel(const std::string& source, const std::string& target) {
  Text text{text::read_lines(source), text::read_lines(target)};
  require(text.source.size() == text.target.size(), "train", target, ": as many lines as ", source, ", ",
          text.source.size(), "; found ", text.target.size());
  return text;
}

std::string joined(std::span<const std::string> lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line;
    text += '\n';
  }
  return text;
}

using Message = std::function<void(std::string_view)>;

void train_tokenizers(const Recipe& recipe, const Text& train, const Message& message, Corpus& corpus) {
  VocabularyTrainer trainer(recipe, message);
  for (size_t i = 0; i < train.source.size(); ++i) trainer.add(0, static_cast<int64_t>(i), train.source[i]);
  for (size_t i = 0; i < train.target.size(); ++i) trainer.add(1, static_cast<int64_t>(i), train.target[i]);
  const VocabularyTrainer::Tokenizers made = trainer.train();
  corpus.source = made.source;
  corpus.target = made.target;
}

// Indices of the pairs whose two sides have 1 to `longest` tokens.
std::vector<size_t> usable(const std::vector<Ids>& sources, const std::vector<Ids>& targets, int64_t longest) {
  const auto fits = [&](const Ids& ids) { return !ids.empty() && static_cast<int64_t>(ids.size()) <= longest; };
  std::vector<size_t> kept;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (fits(sources[i]) && fits(targets[i])) kept.push_back(i);
  }
  return kept;
}

template <class T>
std::vector<T> chosen(std::vector<T>& all, const std::vector<size_t>& kept) {
  std::vector<T> some;
  some.reserve(kept.size());
  for (const size_t i : kept) some.push_back(std::move(all[i]));
  return some;
}

// BLEU counts words, so the joins of text that is already cut into pieces are undone.
std::string without_joins(std::string text) {
  for (size_t at = 0; (at = text.find("@@ ", at)) != std::string::npos;) text.erase(at, 3);
  return text;
}

void prepare_bleu(const Recipe& recipe, const Text& valid, const Frame& frame, Corpus& corpus) {
  std::map<std::string_view, size_t> places;
  std::vector<std::string> sources;
  std::vector<std::vector<std::string>> references;  // [i][r]
  for (size_t i = 0; i < valid.source.size(); ++i) {
    const auto [place, is_new] = places.emplace(valid.source[i], sources.size());
    if (is_new) {
      sources.push_back(valid.source[i]);
      references.emplace_back();
    }
    references[place->second].push_back(recipe.tokenizer == "pieces" ? without_joins(valid.target[i])
                                                                     : valid.target[i]);
  }
  size_t most = 0;
  for (const auto& each : references) most = std::max(most, each.size());
  corpus.references.assign(most, std::vector<std::string>(sources.size()));
  for (size_t i = 0; i < sources.size(); ++i) {
    for (size_t r = 0; r < references[i].size(); ++r) corpus.references[r][i] = references[i][r];
  }
  corpus.bleu_sources = encode_all(*corpus.source, sources);
  const auto longest = static_cast<size_t>(std::max<int64_t>(1, recipe.model.max_length - frame.size()));
  for (Ids& ids : corpus.bleu_sources) {
    ids.resize(std::min(ids.size(), longest));
    ids.insert(ids.begin(), frame.before.begin(), frame.before.end());
    ids.insert(ids.end(), frame.after.begin(), frame.after.end());
  }
}

// What stands around texts. The tokenizers are there.
Frames frames_for(const Corpus& corpus, const CorpusOptions& options) {
  if (options.start != nullptr) return options.start->frames;
  Frames frames;
  if (corpus.target) {
    frames.source = source_frame(corpus.source->special());
    frames.target = target_frame(corpus.target->special());
  } else {
    frames.source = masked_frame(corpus.source->special());
    frames.mask_id = static_cast<int32_t>(corpus.source->vocabulary());
  }
  return frames;
}

// Training tokens that lie in recipe.token_cache; nothing where there is no such folder.
std::optional<PreparedText> prepared(const Recipe& recipe, const std::filesystem::path& folder, bool continued,
                                     const Message& message, const CorpusOptions& options, Corpus& corpus) {
  if (recipe.token_cache.empty()) return std::nullopt;
  std::optional<PreparedText> found = prepare_tokens(recipe, folder, continued, message, options);
  corpus.source = found->source;
  corpus.target = found->target;
  return found;
}

// What is said and asked about sentences that were tokenised, wherever they lie.
void report_sentences(int64_t kept, int64_t all, std::string_view what, int64_t longest, const Message& message) {
  const int64_t left_out = all - kept;
  if (left_out > 0) {
    message(std::to_string(left_out) + " " + std::string(what) + " left out: empty, or longer than " +
            std::to_string(longest) + (longest == 1 ? " token" : " tokens"));
  }
  require(kept > 0, "train", what, " that are neither empty nor longer than ", longest, "; found none of ", all);
}

// The training part goes to `train`, but where there are `tokens` of it already.
void read_pairs_of(const Recipe& recipe, const std::optional<PreparedText>& tokens, Text& train, Text& valid,
                   Corpus& corpus) {
  const auto lines = tokens ? tokens->held_back : text::read_lines(recipe.pairs);
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto [source, target] = split_pair(lines[i], recipe.pairs, static_cast<int64_t>(i) + 1);
    const bool held_back = tokens.has_value() || is_held_back(source, recipe.valid_fraction);
    if (held_back) corpus.held_back.push_back(lines[i]);
    Text& part = held_back ? valid : train;
    part.source.emplace_back(source);
    part.target.emplace_back(target);
  }
  require(tokens || !train.source.empty(), "train", recipe.pairs,
          ": pairs to train on; found none outside valid_fraction");
}

void load_translation(const Recipe& recipe, const std::filesystem::path& folder, bool continued, const Message& message,
                      const CorpusOptions& options, Corpus& corpus) {
  Text train, valid;
  if (!recipe.pairs.empty()) {
    require(recipe.train_source.empty() && recipe.train_target.empty(), "train",
            "either pairs or train_source and train_target; found both");
  } else {
    require(!recipe.train_source.empty() && !recipe.train_target.empty(), "train",
            "pairs, or train_source and train_target; found ",
            recipe.train_source.empty() && recipe.train_target.empty() ? "neither" : "one of the two texts");
  }
  const std::optional<PreparedText> tokens = prepared(recipe, folder, continued, message, options, corpus);
  if (!recipe.pairs.empty()) {
    read_pairs_of(recipe, tokens, train, valid, corpus);
  } else if (!tokens) {
    train = read_parallel(recipe.train_source, recipe.train_target);
  }
  if (!recipe.valid_source.empty()) valid = read_parallel(recipe.valid_source, recipe.valid_target);

  if (tokens) {
    // they came with their tokenizers
  } else if (options.start != nullptr) {
    corpus.source = options.start->source;
    corpus.target = options.start->target;
  } else if (continued) {
    corpus.source = text::Tokenizer::load(folder, text::Side::source);
    corpus.target = recipe.shared_vocabulary ? corpus.source : text::Tokenizer::load(folder, text::Side::target);
  } else {
    train_tokenizers(recipe, train, message, corpus);
  }
  const Frames frames = frames_for(corpus, options);
  const int64_t around = std::max(frames.source.size(), frames.target.size());
  const auto limits = [&](int64_t tokens_of_all, uint64_t seed) -> BatchLimits {
    if (corpus.batch_tokens == 0) corpus.batch_tokens = batch_tokens_for(tokens_of_all);
    return {.tokens = corpus.batch_tokens, .sentences = recipe.batch_sentences, .seed = seed};
  };
  const auto encode_pairs = [&](Text& text, int64_t longest, std::string_view what, uint64_t seed, double sampling) {
    auto sources = encode_all(*corpus.source, text.source);
    auto targets = encode_all(*corpus.target, text.target);
    const auto kept = usable(sources, targets, longest);
    report_sentences(std::ssize(kept), std::ssize(sources), what, longest, message);
    int64_t all = 0;
    for (const size_t i : kept) all += static_cast<int64_t>(std::max(sources[i].size(), targets[i].size())) + around;
    Resegmentation resegmentation;
    if (sampling > 0) {
      resegmentation = {.source = corpus.source->sampler(sampling),
                        .target = corpus.target->sampler(sampling),
                        .source_lines = chosen(text.source, kept),
                        .target_lines = chosen(text.target, kept),
                        .longest = longest,
                        .epochs = recipe.subword_sampling_epochs};
    }
    return parallel_data(chosen(sources, kept), chosen(targets, kept), frames.source, frames.target, limits(all, seed),
                         std::move(resegmentation));
  };
  const int64_t room = recipe.model.max_length - around;
  const int64_t longest = std::min(recipe.max_tokens_per_sentence, room);
  if (tokens) {
    const TokenCounts& counts = tokens->tokens->counts();
    report_sentences(counts.sentences, counts.lines, "training pairs", longest, message);
    corpus.train = parallel_data(mapped_sentences(tokens->tokens, 2), frames.source, frames.target,
                                 limits(counts.longer_sides + counts.sentences, recipe.seed));
  } else {
    corpus.train = encode_pairs(train, longest, "training pairs", recipe.seed, recipe.subword_sampling);
  }
  if (!valid.source.empty()) {
    corpus.valid = encode_pairs(valid, room, "validation pairs", 0, 0);
    if (recipe.valid_beam > 0) prepare_bleu(recipe, valid, frames.source, corpus);
    corpus.prefix = frames.prefix;
    if (options.start != nullptr) corpus.search = options.start->search;
  }
}

// The training part of one text goes to train.source, but where there are `tokens` of it already.
void read_text(const Recipe& recipe, const std::optional<PreparedText>& tokens, bool splits_lines, Text& train,
               Text& valid) {
  if (!tokens) train.source = text::read_lines(recipe.train_source);
  if (!recipe.valid_source.empty()) {
    valid.source = text::read_lines(recipe.valid_source);
  } else if (tokens) {
    valid.source = tokens->held_back;
  } else if (splits_lines && recipe.valid_fraction > 0) {
    const auto keep = static_cast<size_t>((1.0 - recipe.valid_fraction) * static_cast<double>(train.source.size()));
    require(keep > 0, "train", recipe.train_source, ": lines outside valid_fraction; found none of ",
            train.source.size());
    valid.source.assign(train.source.begin() + static_cast<int64_t>(keep), train.source.end());
    train.source.resize(keep);
  }
}

void load_language_model(const Recipe& recipe, const std::filesystem::path& folder, bool continued,
                         const Message& message, const CorpusOptions& options, Corpus& corpus) {
  const std::optional<PreparedText> tokens = prepared(recipe, folder, continued, message, options, corpus);
  const bool characters = recipe.tokenizer == "characters";
  Text train, valid;
  read_text(recipe, tokens, !characters, train, valid);
  if (tokens) {
    // they came with their tokenizer
  } else if (options.start != nullptr) {
    corpus.target = options.start->target;
  } else if (continued) {
    corpus.target = text::Tokenizer::load(folder, text::Side::target);
  } else {
    train_tokenizers(recipe, train, message, corpus);
  }
  Ids in_memory = tokens ? Ids() : stream_of(train.source, *corpus.target);
  const int64_t all = tokens ? tokens->tokens->counts().tokens : std::ssize(in_memory);
  // Of characters the tokens are split, and not the lines.
  const bool splits = characters && recipe.valid_source.empty() && recipe.valid_fraction > 0;
  const int64_t keep = splits ? static_cast<int64_t>((1.0 - recipe.valid_fraction) * static_cast<double>(all)) : all;
  std::shared_ptr<const Stream> stream, held_back;
  if (!valid.source.empty()) {
    held_back = stream_in_memory(stream_of(valid.source, *corpus.target));
  } else if (keep < all) {
    held_back = tokens ? mapped_stream(tokens->tokens, keep, all)
                       : stream_in_memory(Ids(in_memory.begin() + keep, in_memory.end()));
  }
  if (tokens) {
    stream = mapped_stream(tokens->tokens, 0, keep);
  } else {
    in_memory.resize(static_cast<size_t>(keep));
    stream = stream_in_memory(std::move(in_memory));
  }
  const int32_t padding = corpus.target->special().padding;
  if (corpus.batch_tokens == 0) corpus.batch_tokens = batch_tokens_for(keep);
  const BatchLimits limits{.tokens = corpus.batch_tokens, .sentences = recipe.batch_sentences, .seed = recipe.seed};
  corpus.train = stream_data(std::move(stream), Windows::random, recipe.context, padding, limits);
  if (held_back && held_back->size() > 0) {
    corpus.valid = stream_data(std::move(held_back), Windows::consecutive, recipe.context, padding,
                               {.tokens = std::max<int64_t>(corpus.batch_tokens, recipe.context)});
  }
}

void load_masked(const Recipe& recipe, const std::filesystem::path& folder, bool continued, const Message& message,
                 const CorpusOptions& options, Corpus& corpus) {
  const std::optional<PreparedText> tokens = prepared(recipe, folder, continued, message, options, corpus);
  Text train, valid;
  read_text(recipe, tokens, true, train, valid);
  if (tokens) {
    // they came with their tokenizer
  } else if (options.start != nullptr) {
    corpus.source = options.start->source;
  } else if (continued) {
    corpus.source = text::Tokenizer::load(folder, text::Side::source);
  } else {
    train_tokenizers(recipe, train, message, corpus);
  }
  // The last tokens may have no row, and the last rows no token.
  const int64_t rows = options.start != nullptr ? options.start->model->config().source_vocabulary : INT64_MAX;
  const int64_t vocabulary = std::min(corpus.source->vocabulary(), rows);
  const Frames frames = frames_for(corpus, options);
  corpus.mask_id = frames.mask_id;
  const auto data_of = [&](std::shared_ptr<const Sentences> sentences, int64_t all, uint64_t seed) {
    if (corpus.batch_tokens == 0)
      corpus.batch_tokens = batch_tokens_for(all + frames.source.size() * sentences->count());
    return masked_data(std::move(sentences), frames.source,
                       {.mask_id = corpus.mask_id, .vocabulary = vocabulary, .first = frames.first_drawn},
                       {.tokens = corpus.batch_tokens, .sentences = recipe.batch_sentences, .seed = seed});
  };
  const auto encode = [&](const Text& text, int64_t longest, std::string_view what, uint64_t seed) {
    auto sentences = encode_all(*corpus.source, text.source);
    const auto kept = usable(sentences, sentences, longest);
    report_sentences(std::ssize(kept), std::ssize(sentences), what, longest, message);
    int64_t all = 0;
    for (const size_t i : kept) all += std::ssize(sentences[i]);
    std::vector<std::vector<Ids>> sides;
    sides.push_back(chosen(sentences, kept));
    return data_of(sentences_in_memory(std::move(sides)), all, seed);
  };
  const int64_t room = recipe.model.max_length - frames.source.size();
  const int64_t longest = std::min(recipe.max_tokens_per_sentence, room);
  if (tokens) {
    const TokenCounts& counts = tokens->tokens->counts();
    report_sentences(counts.sentences, counts.lines, "training sentences", longest, message);
    corpus.train = data_of(mapped_sentences(tokens->tokens, 1), counts.tokens, recipe.seed);
  } else {
    corpus.train = encode(train, longest, "training sentences", recipe.seed);
  }
  if (!valid.source.empty()) corpus.valid = encode(valid, room, "validation sentences", 0);
}

}  // namespace

bool is_held_back(std::string_view sentence, double fraction) {
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
  for (const char c : sentence) {
    const auto byte = static_cast<unsigned char>(c);
    const bool upper = byte >= 'A' && byte <= 'Z';
    const bool counts = upper || (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte >= 0x80;
    if (!counts) continue;
    hash = (hash ^ (upper ? byte + 32u : byte)) * 0x100000001B3u;
  }
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9u;  // splitmix64: FNV's high bits are poor for short texts
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBu;
  hash ^= hash >> 31;
  return static_cast<double>(hash >> 11) * 0x1p-53 < fraction;
}

std::vector<Ids> encode_all(const text::Tokenizer& tokenizer, std::span<const std::string> lines) {
  std::vector<Ids> all(lines.size());
  parallel_for(static_cast<int64_t>(lines.size()), 256, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) all[i] = tokenizer.encode(lines[i]);
  });
  return all;
}

Ids stream_of(std::span<const std::string> lines, const text::Tokenizer& tokenizer) {
  if (tokenizer.kind() == "characters") return tokenizer.encode(joined(lines));
  Ids stream;
  for (const Ids& ids : encode_all(tokenizer, lines)) {
    stream.insert(stream.end(), ids.begin(), ids.end());
    stream.push_back(tokenizer.special().end);
  }
  return stream;
}

Pairs read_pairs(const std::filesystem::path& tsv) {
  const auto lines = text::read_lines(tsv);
  Pairs pairs;
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto [source, target] = split_pair(lines[i], tsv, static_cast<int64_t>(i) + 1);
    const auto [place, is_new] = places.emplace(source, pairs.sources.size());
    if (is_new) {
      pairs.sources.emplace_back(source);
      pairs.targets.emplace_back();
    }
    pairs.targets[place->second].emplace_back(target);
  }
  return pairs;
}

void fill_vocabulary(models::Config& config, const Corpus& corpus) {
  config.source_vocabulary = corpus.source ? corpus.source->vocabulary() + (corpus.mask_id >= 0 ? 1 : 0) : 0;
  config.target_vocabulary = corpus.target ? corpus.target->vocabulary() : 0;
  const text::SpecialIds special = (corpus.target ? corpus.target : corpus.source)->special();
  config.padding_id = special.padding;
  config.begin_id = special.begin;
  config.end_id = special.end;
  config.unknown_id = special.unknown;
  config.mask_id = corpus.mask_id;
}

Corpus load_corpus(const Recipe& recipe, const std::filesystem::path& folder, bool continued, const Message& message,
                   const CorpusOptions& options) {
  Corpus corpus;
  corpus.batch_tokens = recipe.batch_tokens;
  if (recipe.task == "translation") {
    load_translation(recipe, folder, continued, message, options, corpus);
  } else if (starts_from_encoder(recipe)) {
    require(options.start != nullptr, "train", "from: the folder of an encoder, from which a training for ",
            recipe.task, " starts; found none");
    const auto load = recipe.task == "sentence_embedding" ? load_sentence_pairs : load_classification;
    load(recipe, *options.start, message, corpus);
  } else {
    require(!recipe.train_source.empty(), "train", "train_source, a text; found none");
    const auto load = recipe.task == "language_model" ? load_language_model : load_masked;
    load(recipe, folder, continued, message, options, corpus);
  }
  const uint32_t sums[2] = {corpus.train->checksum(), corpus.valid ? corpus.valid->checksum() : 0};
  corpus.checksum = checksum_of({{static_cast<int32_t>(sums[0]), static_cast<int32_t>(sums[1])}});
  return corpus;
}

}  // namespace heed::train
