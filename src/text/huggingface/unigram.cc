// Unigram (Kudo 2018): the cut of a text whose tokens have the largest product of probabilities, by Viterbi's
// algorithm.
#include <algorithm>
#include <array>
#include <cmath>

#include "heed/error.h"
#include "text/huggingface/characters.h"
#include "text/huggingface/model.h"

namespace heed::text::huggingface {

namespace {

constexpr double kPenaltyOfUnknown = 10;

class Unigram : public Model {
 public:
  Unigram(TokenTable table, UnigramOptions options, const std::string& name)
      : Model(std::move(table)), o_(std::move(options)), name_(name) {
    double lowest = INFINITY;
    for (const double score : o_.scores) {
      require(std::isfinite(score), "load_tokenizer", name_, ": finite scores; found another");
      lowest = std::min(lowest, score);
    }
    unknown_score_ = lowest - kPenaltyOfUnknown;
    while (window_ <= tokens().trie().longest() + 4) window_ *= 2;
    for (size_t b = 0; b < 256; ++b) {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      const char text[6] = {'<', '0', 'x', kDigits[b / 16], kDigits[b % 16], '>'};
      byte_fallback_[b] = tokens().find({text, sizeof text});
    }
  }

  std::string kind() const override { return "unigram"; }
  int32_t unknown() const override { return o_.unknown; }
  void hide(const std::vector<int32_t>& ids) override {
    hidden_.resize(o_.scores.size(), 0);
    for (const int32_t id : ids)
      if (id >= 0 && id < std::ssize(hidden_)) hidden_[static_cast<size_t>(id)] = 1;
  }

  void cut(std::string_view word, std::vector<Cut>& cuts, Workspace& workspace) const override {
    find_best(word, workspace);
    // From the end to the beginning; a run of unknown tokens is one.
    const size_t before = cuts.size();
    const auto& steps = workspace.steps;
    for (size_t end = word.size(); end > 0;) {
      size_t begin = steps[end].begin;
      const int32_t id = steps[end].id;
      if (id == o_.unknown) {
        while (begin > 0 && steps[begin].id == o_.unknown) begin = steps[begin].begin;
        add_unknown(word, begin, end, cuts);
      } else {
        cuts.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
      }
      end = begin;
    }
    std::reverse(cuts.begin() + static_cast<ptrdiff_t>(before), cuts.end());
  }

 private:
  void find_best(std::string_view word, Workspace& workspace) const {
    const TokenTrie& trie = tokens().trie();
    auto& steps = workspace.steps;
    auto& scores = workspace.scores;  // [end % window_]: no token is longer than the window
    steps.assign(word.size() + 1, {-1, 0});
    scores.assign(window_, 0);
    const auto offer = [&](size_t begin, size_t end, int32_t id, double score) {
      double& best = scores[end & (window_ - 1)];
      if (steps[end].id >= 0 && score <= best) return;
      best = score;
      steps[end] = {id, static_cast<uint32_t>(begin)};
    };
    for (size_t begin = 0; begin < word.size();) {
      const double score = begin == 0 ? 0 : scores[begin & (window_ - 1)];
      const size_t size = character_size(word, begin);
      bool has_character = false;
      uint32_t node = TokenTrie::kRoot;
      for (size_t at = begin; at < word.size();) {
        node = trie.step(node, static_cast<uint8_t>(word[at++]));
        if (node == TokenTrie::kNowhere) break;
        const int32_t id = trie.id(node);
        if (id < 0 || is_hidden(id)) continue;
        offer(begin, at, id, o_.scores[static_cast<size_t>(id)] + score);
        has_character = has_character || at == begin + size;
      }
      if (!has_character) {
        require(o_.unknown >= 0, "encode", "text that the vocabulary can spell, which has no unknown token (", name_,
                "); found a character that it lacks");
        offer(begin, begin + size, o_.unknown, unknown_score_ + score);
      }
      begin += size;
    }
  }

  // (in the order from the end)
  void add_unknown(std::string_view word, size_t begin, size_t end, std::vector<Cut>& cuts) const {
    const auto first = static_cast<uint32_t>(begin), last = static_cast<uint32_t>(end);
    const std::string_view text = word.substr(begin, end - begin);
    int32_t whole = tokens().find(text);
    if (whole >= 0 && is_hidden(whole)) whole = -1;
    if (whole < 0 && o_.byte_fallback &&
        std::all_of(text.begin(), text.end(), [&](char c) { return byte_fallback_[static_cast<uint8_t>(c)] >= 0; })) {
      for (size_t i = text.size(); i-- > 0;)
        cuts.push_back({byte_fallback_[static_cast<uint8_t>(text[i])], first, last});
      return;
    }
    cuts.push_back({whole >= 0 ? whole : o_.unknown, first, last});
  }

  [[nodiscard]] bool is_hidden(int32_t id) const { return !hidden_.empty() && hidden_[static_cast<size_t>(id)] != 0; }

  UnigramOptions o_;
  std::vector<uint8_t> hidden_ = {};  // [id]; empty: none
  std::string name_;
  double unknown_score_ = 0;
  size_t window_ = 16;
  std::array<int32_t, 256> byte_fallback_{};
};

}  // namespace

ModelPointer unigram_model(TokenTable tokens, UnigramOptions options, const std::string& name) {
  return std::make_unique<Unigram>(std::move(tokens), std::move(options), name);
}

}  // namespace heed::text::huggingface
