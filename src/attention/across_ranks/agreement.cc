#include "attention/across_ranks/agreement.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/sha256.h"
#include "heed/error.h"

namespace heed::distributed {
namespace {

constexpr char kBetween = '\x1f', kAfter = '\x1e';  // the separators of ASCII, which no name or number has

// What a rank says first. The texts themselves travel only where these differ.
struct Card {
  std::array<uint8_t, 32> hash;
  int64_t failed, length, flags;
};

std::vector<std::pair<std::string_view, std::string_view>> parse_facts(std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> facts;
  while (!text.empty()) {
    const size_t end = text.find(kAfter), middle = text.find(kBetween);
    facts.emplace_back(text.substr(0, middle), text.substr(middle + 1, end - middle - 1));
    text.remove_prefix(end + 1);
  }
  return facts;
}

std::vector<std::string> gather_texts(Communicator& ranks, const std::string& text, const std::vector<Card>& cards) {
  int64_t longest = 0;
  for (const Card& card : cards) longest = std::max(longest, card.length);
  const auto stride = static_cast<size_t>(longest);
  std::vector<char> mine(stride), all(stride * cards.size());
  std::copy(text.begin(), text.end(), mine.begin());
  ranks.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  std::vector<std::string> texts;
  for (size_t r = 0; r < cards.size(); ++r) {
    texts.emplace_back(all.data() + r * stride, static_cast<size_t>(cards[r].length));
  }
  return texts;
}

// The first fact in which `other` differs from the facts of rank 0.
[[noreturn]] void fail_with_difference(Communicator& ranks, std::string_view function,
                                       const std::vector<std::string>& texts, int other) {
  const auto zero = parse_facts(texts[0]), theirs = parse_facts(texts[static_cast<size_t>(other)]);
  size_t n = 0;
  while (n < zero.size() && n < theirs.size() && zero[n] == theirs[n]) ++n;
  const bool same_name = n < zero.size() && n < theirs.size() && zero[n].first == theirs[n].first;
  const auto shown = [&](const auto& facts) {
    return n == facts.size() ? std::string("none") : std::string(facts[n].second);
  };
  fail(function, "the same ", same_name || n < zero.size() ? zero[n].first : std::string_view("options"),
       " on all ranks; found ", shown(zero), " on ", ranks.name_of(0), " and ", shown(theirs), " on ",
       ranks.name_of(other));
}

}  // namespace

std::string Facts::text() const {
  std::string text;
  for (const auto& [name, value] : facts_) text += name + kBetween + value + kAfter;
  return text;
}

std::vector<int64_t> agree(Communicator& ranks, std::string_view function, const Facts& facts,
                           const std::string& failure, int64_t flags) {
  const std::string text = failure.empty() ? facts.text() : failure;
  const Card mine{sha256(text), failure.empty() ? 0 : 1, static_cast<int64_t>(text.size()), flags};
  std::vector<Card> cards(static_cast<size_t>(ranks.size()));
  ranks.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(cards)));
  const bool same = std::all_of(cards.begin(), cards.end(),
                                [&](const Card& card) { return card.failed == 0 && card.hash == mine.hash; });
  if (!same) {
    const std::vector<std::string> texts = gather_texts(ranks, text, cards);
    if (!failure.empty()) throw Error(failure);
    for (int r = 0; r < ranks.size(); ++r) {
      if (cards[static_cast<size_t>(r)].failed == 0) continue;
      fail(function, "arguments that fit on all ranks; ", ranks.name_of(r), " says: ", texts[static_cast<size_t>(r)]);
    }
    for (int r = 1; r < ranks.size(); ++r) {
      if (texts[static_cast<size_t>(r)] != texts[0]) fail_with_difference(ranks, function, texts, r);
    }
  }
  std::vector<int64_t> all;
  for (const Card& card : cards) all.push_back(card.flags);
  return all;
}

}  // namespace heed::distributed
