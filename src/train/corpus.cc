// Reading text, holding back a part of it, training or loading tokenizers, and encoding.
#include "train/corpus.h"

#include <algorithm>
#include <map>

#include "base/threads.h"
#include "heed/error.h"
#include "train/defaults.h"

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

// Source and target of one line of `pairs`.
std::pair<std::string, std::string> split_pair(const std::string& line, const std::filesystem::path& file,
                                               size_t number) {
  const size_t first = line.find('\t');
  require(first != std::string::npos, "read_pairs", file.string(), ", line ", number,
          ": source <tab> target; found no tab");
  const size_t second = std::min(line.find('\t', first + 1), line.size());
  return {line.substr(0, first), line.substr(first + 1, second - first - 1)};
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

std::shared_ptr<const text::Tokenizer> make_tokenizer(const Recipe& recipe, std::span<const std::string> lines,
                                                      std::string_view who, const Message& message) {
  if (recipe.tokenizer == "characters") return text::train_characters(lines);
  if (recipe.tokenizer == "pieces") return text::train_pieces(lines);
  auto tokenizer = text::train_sentencepiece(
      lines, {.vocabulary = recipe.vocabulary, .bpe = recipe.bpe, .seed = recipe.seed, .nearest = true});
  if (const int64_t found = tokenizer->vocabulary(); found != recipe.vocabulary) {
    message(std::string(who) + " a vocabulary of " + std::to_string(found) + ", " +
            (found < recipe.vocabulary ? "the most that this text allows" : "the fewest that its characters need") +
            "; " + std::to_string(recipe.vocabulary) + " was asked for");
  }
  return tokenizer;
}

void train_tokenizers(const Recipe& recipe, const Text& train, const Message& message, Corpus& corpus) {
  const bool translation = recipe.task == "translation";
  if (recipe.task == "language_model" && recipe.tokenizer == "characters") {
    const std::string text = joined(train.source);  // with its line ends
    corpus.target = make_tokenizer(recipe, std::span(&text, 1), "the text gets", message);
  } else if (recipe.task == "language_model") {
    corpus.target = make_tokenizer(recipe, train.source, "the text gets", message);
  } else if (translation && recipe.shared_vocabulary) {
    std::vector<std::string> both = train.source;
    both.insert(both.end(), train.target.begin(), train.target.end());
    corpus.source = corpus.target = make_tokenizer(recipe, both, "source and target get", message);
  } else {
    corpus.source = make_tokenizer(recipe, train.source, translation ? "the source gets" : "the text gets", message);
    if (translation) corpus.target = make_tokenizer(recipe, train.target, "the target gets", message);
  }
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

void prepare_bleu(const Recipe& recipe, const Text& valid, Corpus& corpus) {
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
  const auto longest = static_cast<size_t>(std::max<int64_t>(1, recipe.model.max_length - 1));
  for (Ids& ids : corpus.bleu_sources) {
    ids.resize(std::min(ids.size(), longest));
    ids.push_back(corpus.source->special().end);
  }
}

void report_left_out(size_t count, std::string_view what, int64_t longest, const Message& message) {
  if (count == 0) return;
  message(std::to_string(count) + " " + std::string(what) + " left out: empty, or longer than " +
          std::to_string(longest));
}

void load_translation(const Recipe& recipe, const std::filesystem::path& folder, bool continued, const Message& message,
                      Corpus& corpus) {
  Text train, valid;
  if (!recipe.pairs.empty()) {
    require(recipe.train_source.empty() && recipe.train_target.empty(), "train",
            "either pairs or train_source and train_target; found both");
    const auto lines = text::read_lines(recipe.pairs);
    for (size_t i = 0; i < lines.size(); ++i) {
      auto [source, target] = split_pair(lines[i], recipe.pairs, i + 1);
      const bool held_back = is_held_back(source, recipe.valid_fraction);
      if (held_back) corpus.held_back.push_back(lines[i]);
      Text& part = held_back ? valid : train;
      part.source.push_back(std::move(source));
      part.target.push_back(std::move(target));
    }
    require(!train.source.empty(), "train", recipe.pairs, ": pairs to train on; found none outside valid_fraction");
  } else {
    require(!recipe.train_source.empty() && !recipe.train_target.empty(), "train",
            "pairs, or train_source and train_target; found ",
            recipe.train_source.empty() && recipe.train_target.empty() ? "neither" : "one of the two texts");
    train = read_parallel(recipe.train_source, recipe.train_target);
  }
  if (!recipe.valid_source.empty()) valid = read_parallel(recipe.valid_source, recipe.valid_target);

  if (continued) {
    corpus.source = text::Tokenizer::load(folder, text::Side::source);
    corpus.target = recipe.shared_vocabulary ? corpus.source : text::Tokenizer::load(folder, text::Side::target);
  } else {
    train_tokenizers(recipe, train, message, corpus);
  }
  const auto encode_pairs = [&](Text& text, int64_t longest, std::string_view what, uint64_t seed, double sampling) {
    auto sources = encode_all(*corpus.source, text.source);
    auto targets = encode_all(*corpus.target, text.target);
    const auto kept = usable(sources, targets, longest);
    report_left_out(sources.size() - kept.size(), what, longest, message);
    require(!kept.empty(), "train", "pairs that are neither empty nor longer than ", longest, "; found none of ",
            text.source.size());
    int64_t tokens = 0;
    for (const size_t i : kept) tokens += static_cast<int64_t>(std::max(sources[i].size(), targets[i].size())) + 1;
    if (corpus.batch_tokens == 0) corpus.batch_tokens = batch_tokens_for(tokens);
    Resegmentation resegmentation;
    if (sampling > 0) {
      resegmentation = {.source = corpus.source->sampler(sampling),
                        .target = corpus.target->sampler(sampling),
                        .source_lines = chosen(text.source, kept),
                        .target_lines = chosen(text.target, kept),
                        .longest = longest,
                        .epochs = recipe.subword_sampling_epochs};
    }
    return parallel_data(
        chosen(sources, kept), chosen(targets, kept), corpus.source->special(), corpus.target->special(),
        {.tokens = corpus.batch_tokens, .sentences = recipe.batch_sentences, .seed = seed}, std::move(resegmentation));
  };
  const int64_t room = recipe.model.max_length - 1;  // for </s>
  corpus.train = encode_pairs(train, std::min(recipe.max_tokens_per_sentence, room), "training pairs", recipe.seed,
                              recipe.subword_sampling);
  if (!valid.source.empty()) {
    corpus.valid = encode_pairs(valid, room, "validation pairs", 0, 0);
    if (recipe.valid_beam > 0) prepare_bleu(recipe, valid, corpus);
  }
}

void load_language_model(const Recipe& recipe, const std::filesystem::path& folder, bool continued,
                         const Message& message, Corpus& corpus) {
  Text train{text::read_lines(recipe.train_source), {}}, valid;
  const bool characters = recipe.tokenizer == "characters";
  if (!recipe.valid_source.empty()) {
    valid.source = text::read_lines(recipe.valid_source);
  } else if (!characters && recipe.valid_fraction > 0) {
    const auto keep = static_cast<size_t>((1.0 - recipe.valid_fraction) * static_cast<double>(train.source.size()));
    require(keep > 0, "train", recipe.train_source, ": lines outside valid_fraction; found none of ",
            train.source.size());
    valid.source.assign(train.source.begin() + static_cast<int64_t>(keep), train.source.end());
    train.source.resize(keep);
  }
  if (continued) {
    corpus.target = text::Tokenizer::load(folder, text::Side::target);
  } else {
    train_tokenizers(recipe, train, message, corpus);
  }
  Ids stream = stream_of(train.source, *corpus.target);
  Ids held_back;
  if (!valid.source.empty()) {
    held_back = stream_of(valid.source, *corpus.target);
  } else if (characters && recipe.valid_fraction > 0) {  // split between characters
    const auto keep = static_cast<size_t>((1.0 - recipe.valid_fraction) * static_cast<double>(stream.size()));
    held_back.assign(stream.begin() + static_cast<int64_t>(keep), stream.end());
    stream.resize(keep);
  }
  const int32_t padding = corpus.target->special().padding;
  if (corpus.batch_tokens == 0) corpus.batch_tokens = batch_tokens_for(static_cast<int64_t>(stream.size()));
  const BatchLimits limits{.tokens = corpus.batch_tokens, .sentences = recipe.batch_sentences, .seed = recipe.seed};
  corpus.train = stream_data(std::move(stream), Windows::random, recipe.context, padding, limits);
  if (!held_back.empty()) {
    corpus.valid = stream_data(std::move(held_back), Windows::consecutive, recipe.context, padding,
                               {.tokens = std::max<int64_t>(corpus.batch_tokens, recipe.context)});
  }
}

void load_masked(const Recipe& recipe, const std::filesystem::path& folder, bool continued, const Message& message,
                 Corpus& corpus) {
  Text train{text::read_lines(recipe.train_source), {}}, valid;
  if (!recipe.valid_source.empty()) {
    valid.source = text::read_lines(recipe.valid_source);
  } else if (recipe.valid_fraction > 0) {
    const auto keep = static_cast<size_t>((1.0 - recipe.valid_fraction) * static_cast<double>(train.source.size()));
    valid.source.assign(train.source.begin() + static_cast<int64_t>(keep), train.source.end());
    train.source.resize(keep);
  }
  if (continued) {
    corpus.source = text::Tokenizer::load(folder, text::Side::source);
  } else {
    train_tokenizers(recipe, train, message, corpus);
  }
  const int64_t vocabulary = corpus.source->vocabulary();
  corpus.mask_id = static_cast<int32_t>(vocabulary);
  const auto encode = [&](const Text& text, int64_t longest, std::string_view what, uint64_t seed) {
    auto sentences = encode_all(*corpus.source, text.source);
    const auto kept = usable(sentences, sentences, longest);
    report_left_out(sentences.size() - kept.size(), what, longest, message);
    require(!kept.empty(), "train", "sentences that are neither empty nor longer than ", longest, "; found none of ",
            text.source.size());
    int64_t tokens = 0;
    for (const size_t i : kept) tokens += static_cast<int64_t>(sentences[i].size()) + 2;
    if (corpus.batch_tokens == 0) corpus.batch_tokens = batch_tokens_for(tokens);
    return masked_data(chosen(sentences, kept), corpus.source->special(),
                       {.mask_id = corpus.mask_id, .vocabulary = vocabulary},
                       {.tokens = corpus.batch_tokens, .sentences = recipe.batch_sentences, .seed = seed});
  };
  const int64_t room = recipe.model.max_length - 2;  // for <s> and </s>
  corpus.train = encode(train, std::min(recipe.max_tokens_per_sentence, room), "training sentences", recipe.seed);
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
    auto [source, target] = split_pair(lines[i], tsv, i + 1);
    const auto [place, is_new] = places.emplace(source, pairs.sources.size());
    if (is_new) {
      pairs.sources.push_back(std::move(source));
      pairs.targets.emplace_back();
    }
    pairs.targets[place->second].push_back(std::move(target));
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

Corpus load_corpus(const Recipe& recipe, const std::filesystem::path& folder, bool continued, const Message& message) {
  Corpus corpus;
  corpus.batch_tokens = recipe.batch_tokens;
  if (recipe.task == "translation") {
    load_translation(recipe, folder, continued, message, corpus);
  } else {
    require(!recipe.train_source.empty(), "train", "train_source, a text; found none");
    if (recipe.task == "language_model") {
      load_language_model(recipe, folder, continued, message, corpus);
    } else {
      load_masked(recipe, folder, continued, message, corpus);
    }
  }
  const uint32_t sums[2] = {corpus.train->checksum(), corpus.valid ? corpus.valid->checksum() : 0};
  corpus.checksum = checksum_of({{static_cast<int32_t>(sums[0]), static_cast<int32_t>(sums[1])}});
  return corpus;
}

}  // namespace heed::train
