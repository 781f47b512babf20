// Attention between words: Clark et al. 2019, section 4.1.
#include <cstring>

#include "heed/error.h"
#include "heed/inspect.h"

namespace heed::inspect {
namespace {

constexpr const char* kByWords = "by_words";

// (H, L, S) -> (H, words of L, words of S): columns added, rows averaged, in the order of the tokens.
Tensor pooled(const Tensor& weights, const Words& rows, const Words& columns) {
  const int64_t heads = weights.size(0), length = weights.size(1), keys = weights.size(2);
  require(std::ssize(rows.of_token) == length && std::ssize(columns.of_token) == keys, kByWords,
          "a word for each token; found ", rows.of_token.size(), " and ", columns.of_token.size(), " for weights ",
          weights.shape());
  std::vector<float> pieces(rows.texts.size(), 0);
  for (const int32_t word : rows.of_token) pieces[static_cast<size_t>(word)] += 1;
  const Tensor all = weights.contiguous();
  const auto row_words = std::ssize(rows.texts), column_words = std::ssize(columns.texts);
  Tensor result = Tensor::zeros({heads, row_words, column_words});
  const float* from = all.data<float>();
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < length; ++i) {
      const int32_t word = rows.of_token[static_cast<size_t>(i)];
      float* const to = result.data<float>() + (h * row_words + word) * column_words;
      for (int64_t j = 0; j < keys; ++j) to[columns.of_token[static_cast<size_t>(j)]] += *from++;
    }
    for (int64_t w = 0; w < row_words; ++w) {
      float* const row = result.data<float>() + (h * row_words + w) * column_words;
      for (int64_t j = 0; j < column_words; ++j) row[j] /= pieces[static_cast<size_t>(w)];
    }
  }
  return result;
}

void pool(std::vector<Map>& maps, const Words& rows, const Words& columns) {
  for (Map& map : maps) map.weights = pooled(map.weights, rows, columns);
}

// What follows each word of the target: the token that was written behind its last piece, or the whole word that this
// token begins.
std::vector<std::string> words_after(const Record& record) {
  const Words& words = record.target_words;
  std::vector<std::string> result(words.texts.size());
  for (size_t i = 0; i < words.of_token.size(); ++i) {
    const bool is_read_next = i + 1 < words.of_token.size() && record.output_tokens[i] == record.target_tokens[i + 1];
    result[static_cast<size_t>(words.of_token[i])] =
        is_read_next ? words.texts[static_cast<size_t>(words.of_token[i + 1])] : record.output_tokens[i];
  }
  return result;
}

}  // namespace

Record by_words(const Record& record) {
  Record result = record;
  const auto check = [](const Words& words, const std::vector<std::string>& tokens) {
    require(words.of_token.size() == tokens.size(), kByWords, "a record that knows the word of each of its ",
            tokens.size(), " tokens; found ", words.of_token.size());
    for (const int32_t word : words.of_token)
      require(word >= 0 && word < std::ssize(words.texts), kByWords, "words from 0 to ", words.texts.size(), "; found ",
              word);
  };
  check(record.source_words, record.source_tokens);
  check(record.target_words, record.target_tokens);
  pool(result.encoder, record.source_words, record.source_words);
  pool(result.decoder, record.target_words, record.target_words);
  pool(result.cross, record.target_words, record.source_words);
  result.source_tokens = record.source_words.texts;
  result.target_tokens = record.target_words.texts;
  if (!record.output_tokens.empty()) result.output_tokens = words_after(record);
  for (Words* const words : {&result.source_words, &result.target_words}) {
    words->of_token.clear();
    for (int32_t i = 0; i < std::ssize(words->texts); ++i) words->of_token.push_back(i);
  }
  return result;
}

}  // namespace heed::inspect
