// A record as a trained translation model might give it: three layers of four heads, Chinese out.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "heed/inspect.h"

namespace heed::inspect {

// Weights (H, L, S), rows summing to 1: head h looks `shift` behind, more or less sharply; masked where causal.
inline Tensor sample_weights(int64_t heads, int64_t rows, int64_t columns, int64_t layer, bool causal) {
  Tensor weights = Tensor::zeros({heads, rows, columns});
  float* at = weights.data<float>();
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      std::vector<double> row(static_cast<size_t>(columns));
      for (int64_t j = 0; j < columns && (!causal || j <= i); ++j) {
        const double place = causal || rows == columns ? static_cast<double>(i - (h + layer) % 3)
                                                       : static_cast<double>(i * (columns - 1)) /
                                                             static_cast<double>(std::max<int64_t>(1, rows - 1));
        const double sharp = 0.25 + 0.5 * static_cast<double>((h * 7 + layer * 5) % 5);
        const double wave = 0.8 * std::sin(static_cast<double>(3 * i + 5 * j + 7 * h + 11 * layer));
        double score = -sharp * std::abs(static_cast<double>(j) - place) + wave;
        if (h % 4 == 3) score = j == columns - 1 || (causal && j == 0) ? 2.5 : 0.3 * wave;
        row[static_cast<size_t>(j)] = std::exp(score);
        sum += row[static_cast<size_t>(j)];
      }
      for (double& weight : row) *at++ = static_cast<float>(weight / sum);
    }
  }
  return weights;
}

inline Record sample_record(std::vector<std::string> source, std::vector<std::string> target,
                            std::vector<std::string> output, int64_t layers = 3, int64_t heads = 8) {
  Record record{.title = "demo/en-zh",
                .source = "Where is the nearest railway station?",
                .output = "最近的火车站在哪里？",
                .source_tokens = std::move(source),
                .target_tokens = std::move(target),
                .output_tokens = std::move(output),
                .encoder = {},
                .decoder = {},
                .cross = {},
                .arrays = {}};
  const auto s = static_cast<int64_t>(record.source_tokens.size()),
             l = static_cast<int64_t>(record.target_tokens.size());
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string number = std::to_string(layer);
    record.encoder.push_back(
        {.path = "encoder.layers." + number + ".self_attention", .weights = sample_weights(heads, s, s, layer, false)});
    record.decoder.push_back(
        {.path = "decoder.layers." + number + ".self_attention", .weights = sample_weights(heads, l, l, layer, true)});
    record.cross.push_back({.path = "decoder.layers." + number + ".cross_attention",
                            .weights = sample_weights(heads, l, s, layer, false)});
  }
  return record;
}

inline Record chinese_record() {
  return sample_record({"▁Where", "▁is", "▁the", "▁near", "est", "▁rail", "way", "▁station", "?", "</s>"},
                       {"<s>", "▁最近", "的", "火车", "站", "在", "哪里", "？"},
                       {"▁最近", "的", "火车", "站", "在", "哪里", "？", "</s>"});
}

}  // namespace heed::inspect
