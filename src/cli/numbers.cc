#include "cli/numbers.h"

#include <fmt/core.h>

#include <cmath>

namespace heed::cli {

std::string bytes_text(int64_t bytes) {
  const double b = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000) return fmt::format("{:.2f} GB", b / 1e9);
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", b / 1e6);
  if (bytes >= 1'000) return fmt::format("{:.1f} kB", b / 1e3);
  return fmt::format("{} bytes", bytes);
}

std::string duration_text(double seconds) {
  const int64_t total = seconds > 0 ? std::llround(seconds) : 0;
  const int64_t hours = total / 3600, minutes = total / 60 % 60, rest = total % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest) : fmt::format("{}:{:02}", minutes, rest);
}

std::string counted(int64_t count, const char* one, const char* more) {
  return with_commas(count) + " " + (count == 1 ? one : more);
}

}  // namespace heed::cli
