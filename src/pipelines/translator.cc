// Translation: texts to ids, groups of them through the search, ids to texts.
#include <algorithm>
#include <exception>

#include "base/threads.h"
#include "generate/languages.h"
#include "generate/settings.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/pipelines.h"
#include "models/sentence_settings.h"
#include "pipelines/encoding.h"
#include "pipelines/folder.h"
#include "pipelines/parts.h"
#include "pipelines/read_texts.h"
#include "pipelines/recording.h"
#include "pipelines/words.h"
#include "text/language_tokens.h"
#include "text/sentences.h"

namespace heed {
namespace {

using pipelines::Ids;

// Hypotheses a thread that are searched together at most: 2,560 (512 texts with a beam of 5) fill about fifteen batches
// of 2,048 tokens, so that texts of equal length find each other. With that, 3,000 lines take no longer than in one
// group.
constexpr int64_t kLargestGroup = 2560;

Translation as_text(const generate::Hypothesis& hypothesis, const text::Tokenizer& tokenizer) {
  return {.text = tokenizer.decode(hypothesis.ids),
          .score = hypothesis.score,
          .finished = hypothesis.finished,
          .tokens = pipelines::pieces_of(tokenizer, hypothesis.ids),
          .log_probs = hypothesis.log_probs};
}

// The threads share them.
std::vector<std::vector<Translation>> as_texts(std::span<const std::vector<generate::Hypothesis>> found,
                                               const text::Tokenizer& tokenizer) {
  constexpr int64_t kGrain = 16;
  std::vector<std::vector<Translation>> result(found.size());
  parallel_for(std::ssize(found), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      for (const generate::Hypothesis& hypothesis : found[i]) result[i].push_back(as_text(hypothesis, tokenizer));
    }
  });
  return result;
}

// In mBART's first models. In the others it stands in front of the text.
bool language_is_behind(const Ids& before, const Ids& after) { return before.empty() && after.size() == 2; }

}  // namespace

Translator Translator::load(const std::filesystem::path& name, WeightFormat weights) {
  constexpr const char* kName = "Translator::load";
  const std::filesystem::path folder = io::find_model_folder(name.string());
  Translator result;
  auto [model, tokenizers] =
      pipelines::load_model<models::Transformer>(folder, kName, models::Architecture::encoder_decoder, weights);
  result.model_ = std::move(model);
  result.source_ = std::move(tokenizers.source);
  result.target_ = std::move(tokenizers.target);
  const models::Config& config = result.model_->config();
  result.longest_ = models::longest_text(folder, config.max_length, kName);
  result.settings_ = generate::settings_of_translator(folder, *result.model_);
  if (result.model_->origin() == nullptr) {
    result.around_.after = {result.source_->special().end};
    return result;
  }
  if (generate::is_of_many_languages(*result.model_) && text::languages_of(*result.source_, true).empty())
    result.target_languages_ = text::languages_of(*result.target_, false);
  const text::Tokens one = result.source_->tokens("a");  // what stands before and behind it stands around every text
  bool behind = false;
  for (size_t i = 0; i < one.ids.size(); ++i) {
    if (one.special[i] == 0) {
      behind = true;
    } else {
      (behind ? result.around_.after : result.around_.before).push_back(one.ids[i]);
    }
  }
  return result;
}

Translator::Around Translator::around(const TranslatorOptions& options) const {
  Around result = around_;
  result.parse_special = options.parse_special;
  if (!options.source_language.empty()) {
    const int32_t language = text::known_language(*source_, options.source_language, "translate");
    if (language_is_behind(result.before, result.after)) {
      result.after[1] = language;
    } else {
      result.before = {language};
    }
  }
  // Marian's models of several target languages are told by a token of the source.
  const bool is_arrow = options.target_language.starts_with(">>");
  if (!options.target_language.empty() && (is_arrow || !text::language_id(*target_, options.target_language))) {
    if (const auto id = source_->id_of(text::arrow_token(options.target_language))) {
      result.before.insert(result.before.begin(), *id);
    }
  }
  const auto tokens_around = static_cast<int64_t>(result.before.size() + result.after.size());
  require(longest_ > tokens_around, "translate", "a model that reads more than the ", tokens_around,
          " tokens around a text; found a limit of ", longest_);
  return result;
}

int64_t Translator::longest(const Around& around) const {
  return longest_ - static_cast<int64_t>(around.before.size() + around.after.size());
}

namespace {

Ids put_around(Ids ids, const Ids& before, const Ids& after) {
  if (ids.empty()) return ids;
  ids.insert(ids.begin(), before.begin(), before.end());
  ids.insert(ids.end(), after.begin(), after.end());
  return ids;
}

}  // namespace

// White space that the tokenizer has no token for. Models of others read it as transformers does.
bool Translator::says_nothing(std::string_view text) const {
  if (model_->origin() != nullptr || text::valid_utf8_prefix(text) != text.size() || !text::trimmed(text).empty())
    return false;
  const Ids ids = source_->encode(text);
  return ids.empty() || std::ranges::count(ids, source_->special().unknown) > 0;
}

Ids Translator::read(std::string_view text, int64_t place, const TextOptions& options, const Around& around,
                     const char* function) const {
  if (says_nothing(text)) return {};
  Ids ids = pipelines::encode_all(*source_, text, place, options, function, around.parse_special);
  pipelines::require_rows(ids, model_->config().source_vocabulary, *source_, place, options, function);
  ids = pipelines::cut_or_refuse(std::move(ids), *source_, text, place, longest(around), options, function);
  return put_around(std::move(ids), around.before, around.after);
}

// What the encoder reads of a text: all of it, or each part.
struct Translator::Source {
  std::vector<Ids> ids;
  std::vector<pipelines::Part> parts = {};  // none where the text is whole
};

Translator::Source Translator::read_in_parts(std::string_view text, int64_t place, const TextOptions& options,
                                             const Around& around) const {
  constexpr const char* kName = "translate";
  if (says_nothing(text)) return {.ids = {Ids()}};
  Ids all = pipelines::encode_all(*source_, text, place, options, kName, around.parse_special);
  pipelines::require_rows(all, model_->config().source_vocabulary, *source_, place, options, kName);
  const int64_t most = longest(around), count = std::ssize(all);
  if (count <= most || options.too_long != TooLong::split) {
    all = pipelines::cut_or_refuse(std::move(all), *source_, text, place, most, options, kName);
    return {.ids = {put_around(std::move(all), around.before, around.after)}};
  }
  Source source{.ids = {}, .parts = pipelines::parts_of(*source_, text, place, most, options, kName)};
  for (const pipelines::Part& part : source.parts) {
    const std::string_view bytes =
        text.substr(static_cast<size_t>(part.span.begin), static_cast<size_t>(part.span.end - part.span.begin));
    Ids ids = pipelines::encode_all(*source_, bytes, place, options, kName, around.parse_special);
    source.ids.push_back(put_around(std::move(ids), around.before, around.after));
  }
  if (source.parts.empty()) return {.ids = {Ids()}};  // white space only
  if (options.on_warning) {
    options.on_warning(
        {.kind = TextWarning::Kind::split, .text = place, .count = std::ssize(source.parts), .total = count});
  }
  return source;
}

generate::BeamOptions Translator::search(const TranslatorOptions& options) const {
  generate::BeamOptions search = settings_ ? generate::with_settings(options.search, *settings_) : options.search;
  generate::leave_out_rows(search, target_->vocabulary(), model_->config().target_vocabulary);
  if (search.begin_id < 0) search.begin_id = usual_begin();
  if (options.target_language.empty()) require_language(search);
  if (!options.target_language.empty() && !text::known_arrow(*source_, options.target_language, "translate")) {
    const int32_t language = text::known_language(*target_, options.target_language, "translate");
    // Where the folder forces a first token, that one is the language, and the decoder begins as the folder says.
    const bool forced =
        settings_ && !settings_->prefix.empty() && text::looks_like_language(*target_, settings_->prefix.front());
    if (text::looks_like_language(*target_, usual_begin()) || (!forced && begins_with_language()))
      search.begin_id = language;
    if (forced || !begins_with_language()) search.prefix = {language};
  }
  return search;
}

int32_t Translator::usual_begin() const {
  if (settings_ && settings_->begin_id >= 0) return settings_->begin_id;
  return static_cast<int32_t>(model_->config().begin_id);
}

bool Translator::needs_language(const generate::BeamOptions& search) const {
  return target_languages_.size() > 1 && search.prefix.empty() && !text::looks_like_language(*target_, search.begin_id);
}

void Translator::require_language(const generate::BeamOptions& search) const {
  if (!needs_language(search)) return;
  constexpr size_t kShown = 8;
  std::string names;
  for (size_t i = 0; i < std::min(kShown, target_languages_.size()); ++i)
    names += (i > 0 ? " " : "") + text::language_name(target_->piece(target_languages_[i]));
  if (target_languages_.size() > kShown) names += " and " + std::to_string(target_languages_.size() - kShown) + " more";
  fail("translate", "a target_language, because the model writes several (", names, "); found none");
}

std::vector<int32_t> Translator::encode(std::string_view text, const TranslatorOptions& options) const {
  return read(text, 0, options.text, around(options), "Translator::encode");
}

bool Translator::begins_with_language() const {
  return generate::begins_with_language(*model_, *target_, usual_begin(),
                                        language_is_behind(around_.before, around_.after));
}

Translator::Languages Translator::languages() const {
  Languages all;
  const auto name = [](const text::Tokenizer& tokenizer, int64_t id) {
    return text::language_name(tokenizer.piece(static_cast<int32_t>(id)));
  };
  for (const int32_t id : text::languages_of(*source_, false)) all.source.push_back(name(*source_, id));
  for (const Ids& side : {around_.before, around_.after})
    for (const int32_t id : side)
      if (text::looks_like_language(*source_, id)) all.usual_source = name(*source_, id);
  const int32_t begin = usual_begin();
  if (const Ids arrows = text::languages_of(*source_, true); !arrows.empty()) {
    for (const int32_t id : arrows) all.target.push_back(name(*source_, id));
  } else {
    if (text::looks_like_language(*target_, begin)) all.usual_target = name(*target_, begin);
    for (const int32_t id : text::languages_of(*target_, false)) all.target.push_back(name(*target_, id));
    if (settings_ && !settings_->prefix.empty() && text::looks_like_language(*target_, settings_->prefix.front()))
      all.usual_target = name(*target_, settings_->prefix.front());
  }
  all.needs_target = needs_language({.begin_id = begin, .prefix = settings_ ? settings_->prefix : Ids()});
  return all;
}

int64_t Translator::largest_group(const TranslatorOptions& options) {
  return std::max<int64_t>(16, num_threads() * kLargestGroup / std::max<int64_t>(1, options.search.beam));
}

int64_t Translator::translate(std::span<const std::string> texts, const TranslatorOptions& options,
                              const std::function<void(int64_t, std::vector<Translation>)>& deliver) const {
  const auto count = static_cast<int64_t>(texts.size());
  const Around around = this->around(options);
  const generate::TranslateOptions search{
      .search = this->search(options), .batch_tokens = options.batch_tokens, .cache = options.cache};
  require(options.first_group >= 1, "translate", "a first group of 1 text or more; found ", options.first_group);
  const int64_t largest = std::max(options.first_group, largest_group(options));
  int64_t group = options.first_group;
  for (int64_t begin = 0; begin < count; group = std::min(4 * group, largest)) {
    std::vector<Source> sources;
    std::vector<Ids> ids;         // of the parts of all of them
    std::exception_ptr bad_text;  // what stands before it is translated first
    try {
      pipelines::read_texts(
          begin, std::min(count, begin + group), options.text,
          [&](int64_t i, const TextOptions& text_options) {
            return read_in_parts(texts[static_cast<size_t>(i)], i, text_options, around);
          },
          {}, sources);
    } catch (const Error&) {
      bad_text = std::current_exception();
    }
    for (Source& source : sources) std::move(source.ids.begin(), source.ids.end(), std::back_inserter(ids));
    const auto found = generate::translate(*model_, ids, search, [&](int64_t done, int64_t) {
      if (options.progress) options.progress(begin + done * std::ssize(sources) / std::ssize(ids));
    });
    std::vector<std::vector<Translation>> texts_found = as_texts(found, *target_);
    size_t next = 0;  // of what was found
    for (const Source& source : sources) {
      std::vector<std::vector<Translation>> translations;
      for (size_t part = 0; part < source.ids.size(); ++part) {
        translations.push_back(std::move(texts_found[next++]));
        if (translations.back().empty()) return begin;  // stopped
      }
      const std::string& text = texts[static_cast<size_t>(begin)];
      deliver(begin, source.parts.empty() ? std::move(translations.at(0))
                                          : pipelines::join_parts(text, source.parts, translations));
      ++begin;
    }
    if (bad_text) std::rethrow_exception(bad_text);
  }
  return count;
}

std::vector<std::vector<Translation>> Translator::translate(std::span<const std::string> texts,
                                                            const TranslatorOptions& options) const {
  std::vector<std::vector<Translation>> results;
  TranslatorOptions together = options;  // nobody waits for the first ones
  together.first_group = std::max(options.first_group, largest_group(options));
  translate(texts, together,
            [&](int64_t, std::vector<Translation> translations) { results.push_back(std::move(translations)); });
  results.resize(texts.size());  // where options.search.stop() ended the work, the rest have none
  return results;
}

std::vector<Translation> Translator::translate(std::string_view text, const TranslatorOptions& options) const {
  const std::string one(text);
  return translate(std::span(&one, 1), options).front();
}

inspect::Record Translator::record(std::string_view source, const RecordOptions& options) const {
  constexpr const char* kName = "Translator::record";
  const models::Config& config = model_->config();
  const TranslatorOptions spoken{
      .search = options.search, .source_language = options.source_language, .target_language = options.target_language};
  const Around around = this->around(spoken);
  generate::BeamOptions search = this->search(spoken);
  search.scores = false;
  const Ids heard = read(source, 0, options.text, around, kName);
  require(!heard.empty(), kName, "a text of at least one token; found an empty one");
  Ids said;
  if (options.target) {
    TextOptions target = options.text;
    target.name = [&](int64_t) { return options.text.name ? options.text.name(1) : std::string("the target"); };
    said = search.prefix;  // what every output begins with: a language, or what generation_config.json forces
    const Ids text =
        pipelines::encode_text(*target_, *options.target, 1, config.max_length - 1 - std::ssize(said), target, kName);
    said.insert(said.end(), text.begin(), text.end());
  } else {
    said = generate::translate(*model_, std::span(&heard, 1), {.search = search}).at(0).at(0).ids;
  }
  inspect::Record record;
  record.source = source;
  record.output = options.target ? *options.target : target_->decode(said);
  Ids seen = {search.begin_id};
  seen.insert(seen.end(), said.begin(), said.end());
  said.push_back(static_cast<int32_t>(config.end_id));
  record.source_tokens = pipelines::labels_of(*source_, heard);
  record.target_tokens = pipelines::labels_of(*target_, seen);
  record.output_tokens = pipelines::labels_of(*target_, said);
  const size_t special = around.before.size() + around.after.size();
  record.source_words = pipelines::words_of_first(*source_, source, heard.size() - special);
  const text::Ids inwards(around.before.rbegin(), around.before.rend());  // the one beside the text first
  for (const int32_t token : inwards) pipelines::add_special_word(record.source_words, source_->piece(token), true);
  for (const int32_t token : around.after)
    pipelines::add_special_word(record.source_words, source_->piece(token), false);
  record.target_words = pipelines::words_of(*target_, std::span(seen).subspan(1));
  pipelines::add_special_word(record.target_words, record.target_tokens.front(), true);
  pipelines::announce_size(config, static_cast<int64_t>(heard.size()), static_cast<int64_t>(seen.size()), options);
  pipelines::observe(record, config, options, [&] {
    (void)model_->forward(pipelines::as_row(heard), pipelines::length_of(heard), pipelines::as_row(seen));
  });
  return record;
}

}  // namespace heed
