#include "pipelines/parts.h"

#include <algorithm>

#include "heed/error.h"
#include "text/huggingface/characters.h"
#include "text/sentences.h"
#include "text/utf8.h"

namespace heed::pipelines {
namespace {

// More bytes than the tokens of most texts have. A sentence that is longer is tried in windows of so many.
constexpr size_t kBytesPerToken = 16;

std::string_view part_of(std::string_view text, const text::Span& span) {
  return text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
}

// The first place of a character at or before `at`, but not before the second one.
size_t whole_characters(std::string_view text, size_t at) {
  at = std::min(at, text.size());
  while (at < text.size() && at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
  return std::max(at, std::min(text.size(), text::huggingface::character_size(text, 0)));
}

// Where the last token of the text begins, if the tokenizer knows places and it is not the only one; else the end.
size_t last_token(const text::Tokenizer& tokenizer, std::string_view text) {
  const text::Tokens tokens = tokenizer.tokens(text, {.add_special = false});
  if (tokens.spans.empty()) return text.size();
  const auto at = static_cast<size_t>(tokens.spans.back().begin);
  const bool inside = at > 0 && at < text.size() && (static_cast<uint8_t>(text[at]) & 0xc0) != 0x80;
  return inside ? at : text.size();
}

// Cuts one sentence, from its beginning to its end.
class SentenceCutter {
 public:
  SentenceCutter(const text::Tokenizer& tokenizer, int64_t longest)
      : tokenizer_(tokenizer), longest_(static_cast<size_t>(std::max<int64_t>(1, longest))) {}

  // Bytes of the first part of `rest`; 0 where not even a character fits.
  [[nodiscard]] size_t first_part(std::string_view rest) {
    for (size_t window = whole_characters(rest, guess_);;) {
      const size_t count = tokens_of(rest.substr(0, window));
      size_t shorter = std::min(window * longest_ / std::max<size_t>(1, count), window - window / 16 - 1);
      if (count <= longest_) {
        const size_t end = window == rest.size() ? window : cut(rest.substr(0, window));
        if (end == window || tokens_of(rest.substr(0, end)) <= longest_) {
          guess_ = 2 * end;
          return end;
        }
        shorter = end - end / 16 - 1;
      }
      shorter = whole_characters(rest, shorter);
      if (shorter >= window) return 0;
      window = shorter;
    }
  }

 private:
  [[nodiscard]] size_t tokens_of(std::string_view text) const { return tokenizer_.encode(text).size(); }
  [[nodiscard]] size_t cut(std::string_view window) const {
    const size_t pause = text::last_pause(window);
    return pause > 0 ? pause : last_token(tokenizer_, window);
  }

  const text::Tokenizer& tokenizer_;
  size_t longest_;
  size_t guess_ = kBytesPerToken * longest_;  // bytes of the next window
};

std::string space_between(std::string_view text, const Part& before, const Part& after, std::string_view left,
                          std::string_view right) {
  // A translation of bytes that are no UTF-8, which a model's pieces may be, is not looked into.
  const bool readable = text::valid_utf8_prefix(left) == left.size() && text::valid_utf8_prefix(right) == right.size();
  if (!readable) return after.glued ? "" : " ";
  if (text::ends_without_spaces(left) || text::begins_without_spaces(right) || after.glued) return "";
  const std::string_view gap = part_of(text, {before.span.end, after.span.begin});
  return gap.empty() || text::begins_without_spaces(gap) ? " " : std::string(gap);  // U+3000 is a wide space
}

}  // namespace

std::vector<Part> parts_of(const text::Tokenizer& tokenizer, std::string_view text, int64_t index, int64_t longest,
                           const TextOptions& options, const char* function) {
  std::vector<Part> parts;
  for (const text::Span& sentence : text::sentences(text)) {
    SentenceCutter cutter(tokenizer, longest);
    bool glued = false;
    for (size_t at = static_cast<size_t>(sentence.begin); at < static_cast<size_t>(sentence.end);) {
      const std::string_view rest = text.substr(at, static_cast<size_t>(sentence.end) - at);
      const size_t size = cutter.first_part(rest);
      require(size > 0, function, name_of_text(options, index), ": characters of at most the ", longest,
              " tokens that the model reads; found one of more");
      const std::string_view part = text::trimmed(rest.substr(0, size));
      const auto begin = part.data() - text.data();
      parts.push_back({.span = {begin, begin + std::ssize(part)}, .glued = glued});
      const std::string_view left = rest.substr(size), next = text::trimmed(left);
      glued = part.data() + part.size() == next.data() && !text::ends_without_spaces(part) &&
              !text::begins_without_spaces(next);
      at = next.empty() ? static_cast<size_t>(sentence.end) : static_cast<size_t>(next.data() - text.data());
    }
  }
  return parts;
}

std::vector<Translation> join_parts(std::string_view text, std::span<const Part> parts,
                                    std::span<const std::vector<Translation>> translations) {
  size_t count = translations.empty() ? 0 : 1;
  for (const auto& found : translations) count = std::max(count, found.size());
  std::vector<Translation> joined(count);
  for (size_t rank = 0; rank < count; ++rank) {
    Translation& whole = joined[rank];
    whole.finished = true;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Translation& part = translations[i][std::min(rank, translations[i].size() - 1)];
      whole.score += part.score / static_cast<double>(parts.size());
      whole.finished = whole.finished && part.finished;
      whole.tokens.insert(whole.tokens.end(), part.tokens.begin(), part.tokens.end());
      whole.log_probs.insert(whole.log_probs.end(), part.log_probs.begin(), part.log_probs.end());
      if (part.text.empty()) continue;
      if (!whole.text.empty()) whole.text += space_between(text, parts[i - 1], parts[i], whole.text, part.text);
      whole.text += part.text;
    }
  }
  return joined;
}

}  // namespace heed::pipelines
