// Translates three sentences with the shipped model: text in, text out, and who attended to whom on the way.
// Run: make examples && build/release/examples/translate demo/en-zh
//
// (The argument is the folder of an encoder-decoder model.)
//
// Prints:
//   Where is the station?  ->  车站在哪里？
//   I have to go home.  ->  我得回家了。
//   What are you doing now?  ->  你现在在做什么？
//   the first ended by itself: yes
//   to say 车站 it read ▁station
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/pipelines.h"

namespace {

// The column of the largest weight in row `row`, mean over the heads. weights (H, L, S).
int64_t strongest(const heed::Tensor& weights, int64_t row) {
  std::vector<double> sums(static_cast<size_t>(weights.size(2)));
  for (int64_t h = 0; h < weights.size(0); ++h)
    for (int64_t j = 0; j < weights.size(2); ++j) sums[static_cast<size_t>(j)] += weights.at({h, row, j});
  return std::max_element(sums.begin(), sums.end()) - sums.begin();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const heed::Translator translator = heed::Translator::load(argc > 1 ? argv[1] : "demo/en-zh");

    // Many texts: each list is handed over, in order, as soon as it is done.
    const std::vector<std::string> texts = {"Where is the station?", "I have to go home.", "What are you doing now?"};
    translator.translate(texts, {}, [&](int64_t i, const std::vector<heed::Translation>& best_first) {
      std::printf("%s  ->  %s\n", texts[static_cast<size_t>(i)].c_str(), best_first[0].text.c_str());
    });

    // One text, with what the model thought of it.
    const heed::Translation one = translator.translate(texts[0]).front();
    std::printf("the first ended by itself: %s\n", one.finished ? "yes" : "no");

    // Who attended to whom, in the last layer of the decoder, while the token after the first was said.
    const heed::inspect::Record record = translator.record(texts[0]);
    const auto key = static_cast<size_t>(strongest(record.cross.back().weights, 1));
    std::printf("to say %s it read %s\n", record.output_tokens[1].c_str(), record.source_tokens[key].c_str());
  } catch (const heed::Error& error) {  // a wrong folder, a text that is not UTF-8
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
