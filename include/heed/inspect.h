// Records who attends to whom, and draws it.
//
// Token text is data: it may contain anything and never becomes markup, a script or a file name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"
#include "heed/nn.h"
#include "heed/probe.h"

HEED_EXPORT_BEGIN
namespace heed::inspect {

// One attention layer's weights and the tokens on both sides.
struct Map {
  std::string path;  // "decoder.layers.2.cross_attention"
  Tensor weights;    // (H, L, S) f32
};

// The words that tokens are pieces of.
struct Words {
  std::vector<int32_t> of_token;   // for each token, in their order: its word, from 0
  std::vector<std::string> texts;  // of each word
};

// The attention of one run through a model, of one sequence (or pair).
struct Record {
  std::string title;   // for the reader: the folder of the model, for example
  std::string source;  // the source sentence, as it was typed
  std::string output;  // the target sentence
  // As a reader should see them: those of byte-level vocabularies are characters, with ▁ for a space.
  std::vector<std::string> source_tokens;    // of the encoder (encoder_decoder, encoder_only); else empty
  std::vector<std::string> target_tokens;    // what the decoder read; else empty
  std::vector<std::string> output_tokens;    // the token it wrote next at each of these positions
  std::vector<Map> encoder, decoder, cross;  // one map for each layer
  std::vector<Map> arrays;                   // without a model: one map for each batch row, target to source tokens
  Words source_words = {},
        target_words = {};  // of source_tokens and target_tokens, where a pipeline has made the record
};

// Collects batch row 0 of all layers while an ObserverScope with this recorder is open. If a layer runs more than once,
// the recorder keeps the last run.
class Recorder : public nn::AttentionObserver {
 public:
  void on_attention(std::string_view path, const Tensor& weights) override;
  // Sorted by the layers' paths into encoder, decoder and cross attention, layers in their order. A path that names
  // neither stack belongs to the decoder, or to the encoder where the record has no target tokens.
  void move_into(Record& record);

 private:
  std::vector<Map> maps_;
};

// Collects the attention of texts of thousands of tokens while a ProbeScope with this recorder is open. The weights
// between all tokens would not fit into memory, nor on a screen. So neighbouring tokens are taken together, in groups
// of about the same size: group g of c holds the tokens [g n / c, (g + 1) n / c) of n. The weight of a group is the sum
// over its tokens where it is attended to, and the mean over its tokens where it attends, so that rows keep their sum
// of 1.
class PooledRecorder : public nn::Probe {
 public:
  explicit PooledRecorder(int64_t most_groups);  // of the rows, and of the columns
  void on_attention(std::string_view path, const Tensor& query, const Tensor& key, const Tensor& value,
                    AttentionOptions& options) override;
  // As Recorder::move_into(); the record's tokens become groups, "▁The … ▁mat" by their first and last token. What was
  // written next is what was written behind a group's last token.
  void move_into(Record& record);

 private:
  int64_t most_groups_;
  Recorder recorder_;
};

// The record with words in place of tokens: the weight of a word is the sum over its pieces where it is attended to,
// and the mean over its pieces where it attends. Rows keep their sum. Throws Error for a record that does not know its
// words.
[[nodiscard]] Record by_words(const Record& record);

// Which attention of a record; `arrays` is attention of arrays, without a model.
enum class Part { encoder, decoder, cross, arrays };

// How much each head's picture tells about words, from 0 to 1: sharpness x agreement x coverage, to 4 decimals. One
// list for each layer (no list: the record has no such part): a score for each head and, last, one for the mean.
//   sharpness  the largest weight of a row
//   agreement  the share that all heads of all layers together give to that place (cross-attention; else 1)
//   coverage   (c - 1) / (n - 1): c different columns hold the rows' largest weights, as far as these are above 1 / S;
//              there could be n
// Sharpness x agreement is averaged over the rows. Only words count, on both sides: no punctuation, no <s>, no </s>. In
// self-attention a token itself, its neighbours and a decoder's first token do not count either.
[[nodiscard]] std::vector<std::vector<double>> telling_scores(const Record& record, Part part);

struct Place {
  Part part = Part::cross;
  int64_t layer = 0;  // from 0
  int64_t head = 0;   // from 0; -1: the mean over heads
  double score = 0;
};

// The head (or mean) with the largest score, the first one among equals: in a part, or on the whole page. A page opens
// on cross-attention, where the record has it, else on the decoder's, else on the encoder's.
[[nodiscard]] Place most_telling(const Record& record, Part part);
[[nodiscard]] Place most_telling(const Record& record);

// One self-contained HTML page: tabs for encoder, decoder and cross attention, thumbnails of every layer and head, one
// of them large, hover to follow a token. No network, no external file, no inline event handler; works from disk. It
// opens on most_telling(); the part of its address after '#' says what else to show: #cross/2/3 is layer 2, head 3,
// from 1. Weights are rounded to 4 significant digits and 6 decimals. Throws Error where tokens and weights do not
// match.
[[nodiscard]] std::string to_html(const Record& record);
// What to tell the reader before a page of more than 20 MB is written: browsers open it slowly, phones not at all.
// Empty for smaller pages.
[[nodiscard]] std::string large_page_warning(std::string_view page);
// A page of a text with more tokens has groups of tokens in their place: no screen has the pixels for so many names.
inline constexpr int64_t kMostTokens = 1024;
// The weights of a page of 20 MB, which browsers open quickly.
inline constexpr int64_t kWeightsOfAPage = 2'500'000;
// The most weights of a page, and of a record as JSON.
inline constexpr int64_t kMostWeights = 60'000'000;
// The record as JSON, with "words" (1 where a token is a word) and "telling" (telling_scores() of each part).
[[nodiscard]] std::string to_json(const Record& record);

// One head: weights (L, S) of any dtype, tokens of the rows and columns (none: positions are numbered from 0).
[[nodiscard]] std::string to_svg(const Tensor& weights, const std::vector<std::string>& rows,
                                 const std::vector<std::string>& columns, const std::string& title);
// The cells alone, `cell` pixels each, as a PNG.
[[nodiscard]] std::string to_png(const Tensor& weights, int64_t cell = 16);
[[nodiscard]] std::string to_json(const Tensor& weights, const std::vector<std::string>& rows,
                                  const std::vector<std::string>& columns, const std::string& title);
// For a terminal: for each row the `top` columns with the largest weights, and these weights.
[[nodiscard]] std::string to_text(const Tensor& weights, const std::vector<std::string>& rows,
                                  const std::vector<std::string>& columns, int64_t top = 3);

// Token text made safe for each context: it stays text, whatever it contains.
[[nodiscard]] std::string escape_html(std::string_view text);      // element content and attribute values
[[nodiscard]] std::string escape_json(std::string_view text);      // a JSON string that is also safe inside <script>
[[nodiscard]] std::string escape_terminal(std::string_view text);  // control and direction characters made visible

// A training's curves (loss, validation, learning rate, speed) from its log.jsonl: as a page, or as one picture. A last
// line that was cut off is left out; any other line that is not JSON is an Error with its number.
[[nodiscard]] std::string plot_log(const std::filesystem::path& file);
[[nodiscard]] std::string plot_log_svg(const std::filesystem::path& file);

}  // namespace heed::inspect
HEED_EXPORT_END
