// Writes every file of the cases into FOLDER/<target>/: what a fuzzer begins with.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "malformed/cases.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "write_seeds FOLDER\n";
    return 2;
  }
  constexpr size_t kLargest = 4096;  // larger ones make every step slow
  int number = 0;
  for (const heed::malformed::Case& c : heed::malformed::all_cases()) {
    if (c.contents.size() > kLargest) continue;
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / c.target;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / ("seed-" + std::to_string(number++)), std::ios::binary) << c.contents;
  }
  return 0;
}
