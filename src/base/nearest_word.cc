#include "base/nearest_word.h"

#include <algorithm>
#include <vector>

namespace heed {
namespace {

size_t distance(std::string_view a, std::string_view b) {
  // Rows of the table of distances between the first i letters of a and the first j letters of b.
  std::vector<size_t> two_above, above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    two_above = above;
    above = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// "beam" of "--beam", "width" of "model.width".
std::string_view letters_of(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  return word.substr(word.rfind('.') + 1);  // npos + 1 is 0
}

}  // namespace

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> candidates) {
  const size_t letters = letters_of(word).size();
  std::string_view nearest;
  size_t best = std::max<size_t>(1, letters / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const bool begins = letters > 1 && candidate.starts_with(word);
    const size_t longer = std::max(word.size(), candidate.size()) - std::min(word.size(), candidate.size());
    if (!begins && longer >= best) continue;  // each letter too many is an edit
    const size_t edits = begins ? 1 : distance(word, candidate);
    if (edits < best) {
      best = edits;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace heed
