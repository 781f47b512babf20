// Subword regularisation (Kudo 2018): segmentations of a line drawn at random from a unigram model.
//
// A segmentation x of a line has the probability p(x)^alpha / sum over all segmentations y of p(y)^alpha, where p(x) is
// the product of its pieces' probabilities (section 3.2 of the paper with l = infinity). The draw is exact: sums of the
// weights of all segmentations of each prefix, then pieces drawn from the end of the line to its beginning.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "heed/text.h"

namespace heed::text {

// A positive number whose exponent does not overflow: fraction * 2^exponent, fraction in [0.5, 1).
struct Scaled {
  double fraction = 0;
  int64_t exponent = 0;
};

// e^x from additions, multiplications and fixed constants alone: the C library's last bit depends on the processor.
[[nodiscard]] Scaled scaled_exp(double x);

class UnigramSampler : public SubwordSampler {
 public:
  struct Piece {
    std::string text;
    int32_t id = 0;
    double score = 0;  // log probability
  };
  // `normalise` gives the line as the pieces spell it ("▁" for spaces). A character that no piece is gets `unknown`,
  // as SentencePiece does it: 10 below the lowest score, and a run of them is one token.
  UnigramSampler(const std::vector<Piece>& pieces, int32_t unknown, double alpha,
                 std::function<std::string(std::string_view)> normalise);

  [[nodiscard]] std::vector<int32_t> encode(std::string_view text, uint64_t key, uint64_t stream) const override;

 private:
  struct Entry {
    int32_t id = 0;
    Scaled weight;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> pieces_;
  size_t longest_ = 1;  // characters of the longest piece
  Entry unknown_;
  std::function<std::string(std::string_view)> normalise_;
};

}  // namespace heed::text
