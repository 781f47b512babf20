// Trainings of several ranks, which are threads, and what they wrote.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "heed/distributed.h"
#include "toy.h"

namespace heed::train {

inline Outcome train_on(int ranks, const Recipe& recipe, const std::filesystem::path& folder, bool resume,
                        const std::function<Callbacks(int)>& callbacks = {}, int context_ranks = 0) {
  std::atomic<Outcome> outcome{Outcome::finished};
  distributed::run_in_process(ranks, [&](distributed::Communicator& each) {
    const Outcome mine =
        train(recipe, folder, resume, callbacks ? callbacks(each.rank()) : Callbacks{}, each, context_ranks);
    if (each.rank() == 0) outcome = mine;
  });
  return outcome;
}

// Files whose bytes must be equal: everything but times.
inline std::map<std::string, std::string> weights_in(const std::filesystem::path& folder) {
  std::map<std::string, std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") {
      found[std::filesystem::relative(entry.path(), folder).string()] = read_text(entry.path());
    }
  }
  return found;
}

// The losses, norms and scores of the log, without times.
inline std::string figures_in(const std::filesystem::path& folder) {
  std::string figures;
  std::istringstream lines(read_text(folder / "log.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    for (const char* const key : {"\"type\":", "\"update\":", "\"loss\":", "\"gradient_norm\":", "\"bleu\":"}) {
      const size_t at = line.find(key);
      if (at != std::string::npos) figures += line.substr(at, line.find_first_of(",}", at) - at) + " ";
    }
    figures += "\n";
  }
  return figures;
}

inline void expect_same(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto in_a = weights_in(a), in_b = weights_in(b);
  ASSERT_FALSE(in_a.empty());
  ASSERT_EQ(in_a.size(), in_b.size());
  for (const auto& [name, bytes] : in_a) {
    ASSERT_TRUE(in_b.contains(name)) << name;
    EXPECT_TRUE(bytes == in_b.at(name)) << name << " differs";
  }
  EXPECT_EQ(figures_in(a), figures_in(b));
}

}  // namespace heed::train
