// Comparing numbers and folders among ranks.
#include "distributed/agreement.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "base/files.h"
#include "heed/error.h"

namespace heed::distributed {

namespace {

template <class T>
std::vector<T> all_of(Communicator& ranks, T mine) {
  std::vector<T> all(static_cast<size_t>(ranks.size()));
  ranks.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

std::string names(const Communicator& ranks, const std::vector<int>& which) {
  constexpr size_t kMost = 4;
  std::string text;
  for (size_t i = 0; i < which.size() && i < kMost; ++i) text += (i > 0 ? ", " : "") + ranks.name_of(which[i]);
  return which.size() > kMost ? text + " and " + std::to_string(which.size() - kMost) + " more" : text;
}

// `who`: the ranks that have each value.
void require_one(const Communicator& ranks, const std::string& what, const std::map<uint64_t, std::vector<int>>& who) {
  if (who.size() == 1) return;
  std::vector<std::vector<int>> groups;
  for (const auto& [unused, group] : who) groups.push_back(group);
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  const bool majority = groups[0].size() > groups[1].size();
  std::vector<int> others;
  for (size_t i = 1; i < groups.size(); ++i) others.insert(others.end(), groups[i].begin(), groups[i].end());
  std::sort(others.begin(), others.end());
  const char* const verb = others.size() == 1 ? " has" : " have";
  if (majority)
    fail("distributed", "the same ", what, " on all ranks; ", names(ranks, others), verb, " other than the rest");
  fail("distributed", "the same ", what, " on all ranks; ", names(ranks, others), verb, " other than ",
       names(ranks, groups[0]));
}

bool shows(const std::filesystem::path& file, const std::string& mark) {
  try {
    return files::read_all(file, 1 << 16, "distributed") == mark;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void require_agreement(Communicator& ranks, const std::string& what, uint64_t value, int kind) {
  struct Card {
    uint64_t value, kind;
  };
  const std::vector<Card> all = all_of(ranks, Card{value, static_cast<uint64_t>(kind)});
  std::map<uint64_t, std::map<uint64_t, std::vector<int>>> of_kind;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const Card& card = all[static_cast<size_t>(rank)];
    of_kind[card.kind][card.value].push_back(rank);
  }
  for (const auto& [unused, who] : of_kind) require_one(ranks, what, who);
}

uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

void require_one_folder(Communicator& ranks, const std::filesystem::path& file, const std::string& mark) {
  constexpr auto kPatience = std::chrono::seconds(5);
  const std::string expected = ranks.broadcast_text(mark, 0);
  bool seen = shows(file, expected);
  for (const auto start = std::chrono::steady_clock::now();
       !seen && std::chrono::steady_clock::now() - start < kPatience; seen = shows(file, expected)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const std::vector<uint8_t> all = all_of(ranks, static_cast<uint8_t>(seen));
  std::vector<int> blind;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (all[static_cast<size_t>(rank)] == 0) blind.push_back(rank);
  }
  require(blind.empty(), "distributed", files::quoted(file.parent_path()), ": a folder that all ranks share; ",
          names(ranks, blind), blind.size() == 1 ? " does" : " do", " not see what rank 0 writes there");
}

}  // namespace heed::distributed
