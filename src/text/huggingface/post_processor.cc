#include "text/huggingface/post_processor.h"

#include <algorithm>

#include "heed/error.h"
#include "text/huggingface/characters.h"

namespace heed::text::huggingface {

namespace {

void shorten(Encoded& encoded, int64_t size, const Truncation& truncation) {
  const auto count = static_cast<int64_t>(encoded.ids.size());
  if (size >= count) return;
  const auto shorten_vector = [&](auto& values) {
    if (values.empty()) return;
    if (truncation.from_left) values.erase(values.begin(), values.begin() + (count - size));
    values.resize(static_cast<size_t>(size));
  };
  shorten_vector(encoded.ids);
  shorten_vector(encoded.spans);
  shorten_vector(encoded.words);
  shorten_vector(encoded.spaces);
}

}  // namespace

int64_t truncate(Encoded& text, Encoded* pair, int64_t most, const Truncation& truncation) {
  auto first = static_cast<int64_t>(text.ids.size());
  auto second = pair == nullptr ? 0 : static_cast<int64_t>(pair->ids.size());
  const int64_t surplus = first + second - most;
  if (surplus <= 0) return 0;
  // The longer of both, and where that is not enough each to half, the second one getting what is odd.
  const bool swapped = first > second && pair != nullptr;
  if (pair == nullptr) {
    first = most;
  } else {
    if (swapped) std::swap(first, second);
    second = first > most ? first : std::max(first, most - first);
    if (first + second > most) {
      first = most / 2;
      second = first + most % 2;
    }
    if (swapped) std::swap(first, second);
  }
  shorten(text, first, truncation);
  if (pair != nullptr) shorten(*pair, second, truncation);
  return surplus;
}

void trim_spans(Encoded& encoded, std::string_view text, const PostProcessor::Trim& trim) {
  for (size_t i = 0; i < encoded.ids.size(); ++i) {
    auto [leading, trailing] = encoded.spaces[i];
    Span& span = encoded.spans[i];
    if (leading == 1 && trim.add_prefix_space && (i == 0 || span.begin == 0)) leading = 0;  // it was added
    auto begin = static_cast<size_t>(span.begin), end = static_cast<size_t>(span.end);
    // A second processor can find more white space than there is text up to the end. `tokenizers` then leaves the end.
    constexpr size_t kLongestCharacter = 4;
    if (end < trailing * kLongestCharacter && count_characters(text.substr(0, end)) < trailing) trailing = 0;
    for (; leading > 0 && begin < end; --leading) begin += character_size(text, begin);
    for (; trailing > 0 && end > begin; --trailing) {
      do --end;
      while (end > begin && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80);
    }
    span = {static_cast<int64_t>(begin), static_cast<int64_t>(end)};
  }
}

Tokens assemble(const PostProcessor& processor, const Encoded& text, const Encoded* pair, bool add_special) {
  Tokens tokens;
  const auto& pieces = pair == nullptr ? processor.single : processor.pair;
  const size_t most = text.ids.size() + (pair == nullptr ? 0 : pair->ids.size()) + 8;
  tokens.ids.reserve(most);
  tokens.segments.reserve(most);
  tokens.spans.reserve(most);
  tokens.special.reserve(most);
  tokens.words.reserve(most);
  int32_t words = 0;  // of the texts before
  for (const TemplatePiece& piece : pieces) {
    const bool is_special = piece.kind == TemplatePiece::Kind::special;
    if (is_special && !add_special) continue;
    if (is_special) {
      tokens.ids.insert(tokens.ids.end(), piece.ids.begin(), piece.ids.end());
      tokens.spans.resize(tokens.ids.size());
    } else {
      const Encoded& part = piece.kind == TemplatePiece::Kind::pair && pair != nullptr ? *pair : text;
      tokens.ids.insert(tokens.ids.end(), part.ids.begin(), part.ids.end());
      tokens.spans.insert(tokens.spans.end(), part.spans.begin(), part.spans.end());
      for (const int32_t word : part.words) tokens.words.push_back(words + word);
      if (!part.words.empty()) words = tokens.words.back() + 1;
    }
    tokens.words.resize(tokens.ids.size(), -1);
    tokens.segments.resize(tokens.ids.size(), piece.segment);
    tokens.special.resize(tokens.ids.size(), is_special ? 1 : 0);
    if (pair != nullptr) tokens.of_pair.resize(tokens.ids.size(), piece.kind == TemplatePiece::Kind::pair ? 1 : 0);
  }
  return tokens;
}

}  // namespace heed::text::huggingface
