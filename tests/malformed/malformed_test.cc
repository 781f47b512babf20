// Every malformed file is refused by its parser: with an Error that names the file, the place and the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "base/scratch.h"
#include "fuzz/target.h"
#include "heed/error.h"
#include "malformed/cases.h"

namespace heed::malformed {
namespace {

constexpr int kFewestKinds = 150;
// Where a message must say the place. SentencePiece's own reader, which is asked last, gives the piece at best.
const std::set<std::string> kBinary = {"ctranslate2", "npy", "npz", "pytorch", "safetensors", "token_file"};

const fuzz::Target& target_of(const Case& c) {
  for (const fuzz::Target& target : fuzz::targets()) {
    if (c.target == target.name) return target;
  }
  throw std::runtime_error("no target " + c.target);
}

// The folders of the targets, with what lies beside their files.
class Folders {
 public:
  const fuzz::Path& of(const fuzz::Target& target) {
    const auto [at, added] = folders_.try_emplace(target.name);
    if (added) {
      at->second = scratch_ / target.name;
      std::filesystem::create_directories(at->second);
      if (target.prepare != nullptr) target.prepare(at->second);
    }
    return at->second;
  }

 private:
  test::Scratch scratch_;
  std::map<std::string, fuzz::Path> folders_;
};

// In a binary file: a byte, or a name beside that of the file.
bool names_a_place(std::string_view message) {
  return message.find("byte") != std::string_view::npos || std::ranges::count(message, '"') >= 4;
}

// "" where the file was read.
std::string message_about(const Case& c, Folders& folders) {
  const fuzz::Target& target = target_of(c);
  const fuzz::Path& folder = folders.of(target);
  fuzz::write_input(target, folder, target.seal != nullptr ? target.seal(c.contents) : c.contents);
  try {
    target.read(folder / target.file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Malformed, EveryKindIsRefusedWithFilePlaceAndReason) {
  Folders folders;
  std::map<std::string, int> kinds;
  std::set<std::pair<std::string, std::string>> names, files;
  int all = 0;
  for (const Case& c : all_cases()) {
    if (c.reason.empty()) continue;
    const std::string message = message_about(c, folders);
    const std::string what = c.target + ", " + c.kind;
    EXPECT_NE(message, "") << what << " was read";
    EXPECT_TRUE(fuzz::names_the_file(target_of(c), message)) << what << ": " << message;
    EXPECT_NE(message.find(c.reason), std::string::npos) << what << ": " << message << "\nlacks: " << c.reason;
    EXPECT_TRUE(!kBinary.contains(c.target) || names_a_place(message)) << what << " without its place: " << message;
    EXPECT_LT(message.size(), 1000u) << what;
    EXPECT_TRUE(names.emplace(c.target, c.kind).second) << what << " is there twice";
    EXPECT_TRUE(files.emplace(c.target, c.contents).second) << what << ": the same bytes as another kind";
    ++kinds[c.target];
    ++all;
  }
  for (const auto& [target, count] : kinds) std::cout << target << ": " << count << " kinds\n";
  std::cout << all << " kinds of malformed files refused\n";
  EXPECT_GE(all, kFewestKinds);
  EXPECT_EQ(kinds.size(), fuzz::targets().size()) << "a parser without malformed files";
}

// A malformed file is refused for what was done to it only if it was read before.
TEST(Malformed, TheFilesThatTheyAreMadeFromAreRead) {
  Folders folders;
  for (const Case& c : all_cases()) {
    if (!c.reason.empty()) continue;
    EXPECT_EQ(message_about(c, folders), "") << c.target << ", " << c.kind;
  }
}

}  // namespace
}  // namespace heed::malformed
