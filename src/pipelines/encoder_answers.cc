// Where a passage answers a question.
//
// As the question-answering pipeline of transformers 4 did: softmax over the passage's tokens and the first token,
// which stands for "no answer"; the best pairs of a first and a last token; windows where the passage is long.
#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "pipelines/encoder_parts.h"

namespace heed {
namespace {

constexpr const char* kAnswer = "Encoder::answer";

// Part of the passage beside the question, as the model reads it.
struct Window {
  pipelines::Sequence sequence;
  std::vector<int64_t> passage;  // [place in the sequence]: the passage's token there, or -1
};

// A run of tokens of the passage.
struct Run {
  int64_t first = 0, last = 0;
  double score = 0;
};

// The question, and of the passage's `count` tokens, which begin at `place`, those from `begin` to `end`.
Window window_of(const text::Tokens& both, int64_t place, int64_t begin, int64_t end, int64_t count) {
  Window window;
  const auto add = [&](int64_t from, int64_t to, bool of_passage) {
    for (int64_t i = from; i < to; ++i) {
      window.sequence.ids.push_back(both.ids[static_cast<size_t>(i)]);
      window.sequence.types.push_back(both.segments[static_cast<size_t>(i)]);
      window.passage.push_back(of_passage ? i - place : -1);
    }
  };
  add(0, place, false);
  add(place + begin, place + end, true);
  add(place + count, std::ssize(both.ids), false);
  return window;
}

// The probabilities that the answer starts, or ends, at each place. Only the passage and the first token count.
std::vector<double> probabilities_of(const Tensor& logits, int64_t column, const Window& window) {
  std::vector<double> result(window.passage.size(), 0);
  const float* const numbers = logits.data<float>();  // (L, 2)
  const auto logit = [&](size_t i) { return static_cast<double>(numbers[2 * static_cast<int64_t>(i) + column]); };
  const auto counts = [&](size_t i) { return i == 0 || window.passage[i] >= 0; };
  double largest = logit(0), sum = 0;
  for (size_t i = 0; i < result.size(); ++i)
    if (counts(i)) largest = std::max(largest, logit(i));
  for (size_t i = 0; i < result.size(); ++i)
    if (counts(i)) sum += result[i] = std::exp(logit(i) - largest);
  for (double& value : result) value /= sum;
  return result;
}

// Better ones first; of equal ones the one that starts, then ends, earlier.
bool is_better(const Run& a, const Run& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.first != b.first ? a.first < b.first : a.last < b.last;
}

// Runs as whole words, each once.
class Words {
 public:
  explicit Words(const text::Tokens& passage) : passage_(passage), begin_(passage.words.size()), end_(begin_) {
    for (size_t i = 0; i < begin_.size(); ++i)
      begin_[i] = i > 0 && passage.words[i - 1] == passage.words[i] ? begin_[i - 1] : i;
    for (size_t i = end_.size(); i-- > 0;)
      end_[i] = i + 1 < end_.size() && passage.words[i + 1] == passage.words[i] ? end_[i + 1] : i;
  }
  // The bytes of all tokens of the words that the run begins and ends in.
  [[nodiscard]] text::Span of(const Run& run) const {
    return {passage_.spans[begin_[static_cast<size_t>(run.first)]].begin,
            passage_.spans[end_[static_cast<size_t>(run.last)]].end};
  }
  // The `count` best runs that are of different words, the best first.
  [[nodiscard]] std::vector<Run> best(std::vector<Run> runs, int64_t count) const {
    std::sort(runs.begin(), runs.end(), is_better);
    std::set<std::pair<int64_t, int64_t>> seen;
    std::vector<Run> kept;
    for (size_t i = 0; i < runs.size() && std::ssize(kept) < count; ++i) {
      const text::Span span = of(runs[i]);
      if (seen.emplace(span.begin, span.end).second) kept.push_back(runs[i]);
    }
    return kept;
  }

 private:
  const text::Tokens& passage_;
  std::vector<size_t> begin_, end_;  // of each token's word, the first and the last token
};

// Every run of at most `longest` tokens of the window.
std::vector<Run> runs_of(const Window& window, std::span<const double> starts, std::span<const double> ends,
                         int64_t longest) {
  std::vector<Run> found;
  for (size_t i = 0; i < window.passage.size(); ++i) {
    if (window.passage[i] < 0) continue;
    for (size_t j = i; j < window.passage.size() && static_cast<int64_t>(j - i) < longest; ++j) {
      if (window.passage[j] < 0) break;
      found.push_back({window.passage[i], window.passage[j], starts[i] * ends[j]});
    }
  }
  return found;
}

// What tokens() says of a text, with errors that name it.
text::Tokens tokens_of(const text::Tokenizer& tokenizer, std::string_view text, int64_t place,
                       const TextOptions& options) {
  pipelines::require_utf8(text, place, options, kAnswer);
  text::Tokens tokens = tokenizer.tokens(text, {.add_special = false});
  require(!tokens.ids.empty(), kAnswer, pipelines::name_of_text(options, place),
          ": a text of at least one token; found an empty one");
  return tokens;
}

}  // namespace

std::vector<Answer> Encoder::answer(std::string_view question, std::string_view passage,
                                    const AnswerOptions& options) const {
  parts_->require_answers(kAnswer);
  require(options.count >= 1 && options.longest_answer >= 1 && options.overlap >= 0, kAnswer,
          "a count and a longest answer of 1 or more, and an overlap of 0 or more; found ", options.count, ", ",
          options.longest_answer, " and ", options.overlap);
  require(options.window >= 1, kAnswer, "a window of 1 token or more; found ", options.window);
  const text::Tokens asked = tokens_of(*tokenizer_, question, 0, options.text),
                     read = tokens_of(*tokenizer_, passage, 1, options.text);
  const text::Tokens both = tokenizer_->tokens(question, {.pair = passage});
  const int64_t count = std::ssize(read.ids), around = std::ssize(both.ids) - count - std::ssize(asked.ids);
  const int64_t longest = std::min(options.window, parts_->reader.longest);
  const int64_t room = longest - around - std::ssize(asked.ids);
  require(room >= 1, kAnswer, pipelines::name_of_text(options.text, 0), ": at most the ",
          std::max<int64_t>(0, longest - around - 1),
          " tokens of a question that the model reads beside a passage; found ", asked.ids.size());
  // The passage is the last run of tokens that are not special.
  int64_t place = std::ssize(both.ids);
  while (place > 0 && both.special[static_cast<size_t>(place - 1)] != 0) --place;
  place -= count;
  const int64_t step = std::max<int64_t>(1, room - std::min({options.overlap, longest / 2, room - 1}));
  const Words words(read);
  std::vector<Run> runs;
  double none = 1;
  const NoGradScope no_grad;
  for (int64_t begin = 0; begin == 0 || begin + room - step < count; begin += step) {
    if (options.on_window) options.on_window();
    const Window window = window_of(both, place, begin, std::min(count, begin + room), count);
    const pipelines::Sequence* const only = &window.sequence;
    const pipelines::SequenceBatch batch = pipelines::batch_of({&only, 1}, model_->config().padding_id);
    const Tensor types = model_->config().token_types > 1 ? batch.types : Tensor();
    const Tensor logits = model_->forward(batch.ids, batch.lengths, types).data().contiguous();  // (1, L, 2)
    pipelines::require_numbers({logits.data<float>(), static_cast<size_t>(logits.numel())});
    const std::vector<double> starts = probabilities_of(logits, 0, window), ends = probabilities_of(logits, 1, window);
    none = std::min(none, starts[0] * ends[0]);
    const std::vector<Run> best = words.best(runs_of(window, starts, ends, options.longest_answer), options.count);
    runs.insert(runs.end(), best.begin(), best.end());
  }
  std::vector<Answer> answers;
  for (const Run& run : words.best(std::move(runs), options.count)) {
    const text::Span span = words.of(run);
    answers.push_back({.text = std::string(
                           passage.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin))),
                       .span = span,
                       .score = static_cast<float>(run.score)});
  }
  if (options.may_be_none) {
    const auto worse = std::find_if(answers.begin(), answers.end(),
                                    [&](const Answer& answer) { return static_cast<double>(answer.score) < none; });
    answers.insert(worse, Answer{.text = "", .span = {}, .score = static_cast<float>(none)});
  }
  if (std::ssize(answers) > options.count) answers.resize(static_cast<size_t>(options.count));
  return answers;
}

}  // namespace heed
