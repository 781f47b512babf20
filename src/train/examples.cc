#include "train/examples.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/threads.h"
#include "heed/error.h"
#include "models/sentence_settings.h"

namespace heed::train {

namespace {

constexpr const char* kExamplesReader = "read_examples";
constexpr size_t kMostListed = 20;  // labels in a message

std::vector<std::string_view> columns_of_line(std::string_view line) {
  std::vector<std::string_view> columns;
  for (;;) {
    const size_t tab = line.find('\t');
    columns.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return columns;
    line.remove_prefix(tab + 1);
  }
}

bool is_whole_number(std::string_view label) {
  const std::string_view digits = label.substr(label.starts_with('-') ? 1 : 0);
  return !digits.empty() && digits.size() <= 18 && digits.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::string Examples::place_of(const Example& example) const {
  return file.string() + ", line " + std::to_string(example.line);
}

Examples read_examples(const std::filesystem::path& file) {
  Examples examples{.file = file, .pairs = false, .all = {}};
  for (const std::string& line : text::read_lines(file)) {
    const std::vector<std::string_view> columns = columns_of_line(line);
    const bool is_first = examples.all.empty();
    if (is_first) examples.pairs = columns.size() == 3;
    Example& example = examples.all.emplace_back();
    example.line = static_cast<int64_t>(examples.all.size());
    const std::string place = examples.place_of(example);
    if (is_first) {
      require(columns.size() == 2 || columns.size() == 3, kExamplesReader, place,
              ": text <tab> label, or text <tab> text <tab> label; found ", columns.size(),
              columns.size() == 1 ? " column" : " columns");
    }
    require(columns.size() == (examples.pairs ? 3 : 2), kExamplesReader, place, ": ", examples.pairs ? 3 : 2,
            " columns, as the first line has; found ", columns.size());
    for (size_t i = 0; i < columns.size(); ++i) {
      require(!columns[i].empty(), kExamplesReader, place, ": a text in each column; column ", i + 1, " is empty");
    }
    example.text = columns[0];
    if (examples.pairs) example.second = columns[1];
    example.label = columns.back();
  }
  return examples;
}

std::vector<std::string> labels_of(const Examples& examples) {
  std::set<std::string> found;
  for (const Example& example : examples.all) found.insert(example.label);
  std::vector<std::string> labels(found.begin(), found.end());
  require(labels.size() >= 2, "train", examples.file.string(), ": two labels or more; found ",
          labels.empty() ? "none" : "only \"" + labels[0] + "\"");
  if (std::ranges::all_of(labels, is_whole_number)) {
    std::ranges::stable_sort(labels, {}, [](const std::string& label) { return std::stoll(label); });
  }
  return labels;
}

std::string list_of(std::span<const std::string> labels) {
  std::string text;
  for (size_t i = 0; i < std::min(labels.size(), kMostListed); ++i) text += (i > 0 ? ", " : "") + labels[i];
  return text + (labels.size() > kMostListed ? ", and " + std::to_string(labels.size() - kMostListed) + " more" : "");
}

std::vector<int32_t> classes_of(const Examples& examples, std::span<const std::string> labels) {
  std::vector<int32_t> classes;
  std::unordered_map<std::string_view, int32_t> numbers;
  for (const std::string& label : labels) numbers.emplace(label, static_cast<int32_t>(numbers.size()));
  for (const Example& example : examples.all) {
    const auto at = numbers.find(example.label);
    require(at != numbers.end(), "train", examples.place_of(example), ": one of the labels ", list_of(labels),
            "; found \"", example.label, "\"");
    classes.push_back(at->second);
  }
  return classes;
}

std::vector<float> scores_of(const Examples& examples, ScoreLoss loss) {
  std::vector<float> scores;
  for (const Example& example : examples.all) {
    scores.push_back(read_score(example.label, range_of(loss), examples.place_of(example)));
  }
  return scores;
}

Reading reading_of(const models::Model& model, const std::filesystem::path& folder, const char* function) {
  const models::SentenceSettings settings = models::read_sentence_settings(folder, folder);
  const auto prompt = settings.prompts.find(settings.default_prompt);
  const bool has_prompt = !settings.default_prompt.empty() && prompt != settings.prompts.end();
  return {.longest = models::longest_text(settings, folder, model.config(), model.origin() != nullptr, function),
          .lowercase = settings.lowercase,
          .prompt = has_prompt ? prompt->second : ""};
}

TokenizedTexts tokenize(const text::Tokenizer& tokenizer, const Examples& examples, const Reading& reading) {
  const size_t count = examples.all.size();
  TokenizedTexts texts{.ids = std::vector<Ids>(count), .types = std::vector<Ids>(count), .cut = 0};
  std::atomic<int64_t> cut{0};
  parallel_for(static_cast<int64_t>(count), 256, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const Example& example = examples.all[i];
      text::TokensOptions options{.limit = reading.longest, .lowercase = reading.lowercase};
      if (examples.pairs) options.pair = example.second;
      text::Tokens tokens = tokenizer.tokens(reading.prompt + example.text, options);
      if (tokens.left_out > 0) cut.fetch_add(1, std::memory_order_relaxed);
      texts.ids[i] = std::move(tokens.ids);
      texts.types[i] = std::move(tokens.segments);
    }
  });
  texts.cut = cut.load();
  for (size_t i = 0; i < count; ++i) {
    require(!texts.ids[i].empty(), "train", examples.place_of(examples.all[i]),
            ": a text of at least one token; found none");
  }
  return texts;
}

}  // namespace heed::train
