// Translation: texts to ids, groups of them through the search, ids to texts.
#include <algorithm>
#include <exception>

#include "heed/error.h"
#include "heed/pipelines.h"
#include "pipelines/encoding.h"
#include "pipelines/folder.h"
#include "pipelines/recording.h"

namespace heed {
namespace {

using pipelines::Ids;

// Hypotheses that are searched together at most: 2,560 (512 texts with a beam of 5) fill about seven batches of 4,096
// tokens, so that texts of equal length find each other. With that, 3,000 lines take no longer than in one group.
constexpr int64_t kLargestGroup = 2560;

// What the encoder reads: the text and the end id, as in training. An empty text stays empty.
Ids encode_source(const Translator& translator, std::string_view text, int64_t place, const TextOptions& options,
                  const char* function) {
  const text::Tokenizer& tokenizer = translator.source_tokenizer();
  const int64_t longest = translator.model().config().max_length - 1;
  Ids ids = pipelines::encode_text(tokenizer, text, place, longest, options, function);
  if (!ids.empty()) ids.push_back(tokenizer.special().end);
  return ids;
}

Translation as_text(const generate::Hypothesis& hypothesis, const text::Tokenizer& tokenizer) {
  return {.text = tokenizer.decode(hypothesis.ids),
          .score = hypothesis.score,
          .finished = hypothesis.finished,
          .tokens = pipelines::pieces_of(tokenizer, hypothesis.ids),
          .log_probs = hypothesis.log_probs};
}

}  // namespace

Translator Translator::load(const std::filesystem::path& folder) {
  constexpr const char* kName = "Translator::load";
  Translator result;
  result.model_ = pipelines::load_model<models::Transformer>(folder, kName, models::Architecture::encoder_decoder);
  const models::Config& config = result.model_->config();
  result.source_ = pipelines::load_tokenizer(folder, text::Side::source, kName, config.source_vocabulary);
  result.target_ = pipelines::load_tokenizer(folder, text::Side::target, kName, config.target_vocabulary);
  return result;
}

std::vector<int32_t> Translator::encode(std::string_view text, const TextOptions& options) const {
  return encode_source(*this, text, 0, options, "Translator::encode");
}

int64_t Translator::largest_group(const TranslatorOptions& options) {
  return std::max<int64_t>(16, kLargestGroup / std::max<int64_t>(1, options.search.beam));
}

int64_t Translator::translate(std::span<const std::string> texts, const TranslatorOptions& options,
                              const std::function<void(int64_t, std::vector<Translation>)>& deliver) const {
  const auto count = static_cast<int64_t>(texts.size());
  const generate::TranslateOptions search{
      .search = options.search, .batch_tokens = options.batch_tokens, .cache = options.cache};
  require(options.first_group >= 1, "translate", "a first group of 1 text or more; found ", options.first_group);
  const int64_t largest = std::max(options.first_group, largest_group(options));
  int64_t group = options.first_group;
  for (int64_t begin = 0; begin < count; group = std::min(4 * group, largest)) {
    std::vector<Ids> sources;
    std::exception_ptr bad_text;  // what stands before it is translated first
    try {
      for (int64_t i = begin; i < std::min(count, begin + group); ++i)
        sources.push_back(encode_source(*this, texts[static_cast<size_t>(i)], i, options.text, "translate"));
    } catch (const Error&) {
      bad_text = std::current_exception();
    }
    const auto found = generate::translate(*model_, sources, search, [&](int64_t done, int64_t) {
      if (options.progress) options.progress(begin + done);
    });
    for (const auto& hypotheses : found) {
      if (hypotheses.empty()) return begin;  // stopped
      std::vector<Translation> translations;
      for (const generate::Hypothesis& hypothesis : hypotheses) translations.push_back(as_text(hypothesis, *target_));
      deliver(begin, std::move(translations));
      ++begin;
    }
    if (bad_text) std::rethrow_exception(bad_text);
  }
  return count;
}

std::vector<std::vector<Translation>> Translator::translate(std::span<const std::string> texts,
                                                            const TranslatorOptions& options) const {
  std::vector<std::vector<Translation>> results;
  translate(texts, options,
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
  const Ids read = encode_source(*this, source, 0, options.text, kName);
  require(!read.empty(), kName, "a text of at least one token; found an empty one");
  Ids said;
  if (options.target) {
    TextOptions target = options.text;
    target.name = [&](int64_t) { return options.text.name ? options.text.name(1) : std::string("the target"); };
    said = pipelines::encode_text(*target_, *options.target, 1, config.max_length - 1, target, kName);
  } else {
    said = generate::translate(*model_, std::span(&read, 1), {.search = options.search}).at(0).at(0).ids;
  }
  inspect::Record record;
  record.source = source;
  record.output = options.target ? *options.target : target_->decode(said);
  const text::SpecialIds special = target_->special();
  Ids seen = {special.begin};
  seen.insert(seen.end(), said.begin(), said.end());
  said.push_back(special.end);
  record.source_tokens = pipelines::pieces_of(*source_, read);
  record.target_tokens = pipelines::pieces_of(*target_, seen);
  record.output_tokens = pipelines::pieces_of(*target_, said);
  pipelines::announce_size(config, static_cast<int64_t>(read.size()), static_cast<int64_t>(seen.size()), options);
  pipelines::observe(record, [&] {
    (void)model_->forward(pipelines::as_row(read), pipelines::length_of(read), pipelines::as_row(seen));
  });
  return record;
}

}  // namespace heed
