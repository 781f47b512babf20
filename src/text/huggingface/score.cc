#include "text/huggingface/score.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/fork.h"

namespace heed::text::huggingface {

namespace {

constexpr int64_t kMostPower = 308;

// [n]: the number nearest to 10^n.
const std::array<double, kMostPower + 1>& powers_of_ten() {
  static const auto powers = [] {
    std::array<double, kMostPower + 1> made{};
    for (size_t n = 0; n < made.size(); ++n) {
      const std::string text = "1e" + std::to_string(n);
      (void)std::from_chars(text.data(), text.data() + text.size(), made[n]);
    }
    return made;
  }();
  return powers;
}
const MadeBeforeFork kPowersOfTen([] { (void)powers_of_ten(); });

// digits * 10^exponent, rounded where `digits` becomes a number and again by the product or quotient.
double scaled(uint64_t digits, int64_t exponent) {
  auto value = static_cast<double>(digits);
  for (; exponent < -kMostPower && value != 0; exponent += kMostPower) value /= powers_of_ten().back();
  const double power = powers_of_ten()[static_cast<size_t>(std::min(std::abs(exponent), kMostPower))];
  return exponent < 0 ? value / power : value * power;
}

}  // namespace

double score_of(const io::JsonValue& number) {
  const std::string_view written = number.text;
  if (written.empty()) return number.number;
  const bool negative = written[0] == '-';
  size_t at = negative ? 1 : 0;
  const auto is_digit = [&] { return at < written.size() && written[at] >= '0' && written[at] <= '9'; };
  uint64_t digits = 0;
  int64_t exponent = 0;
  // Digits count until there is no place for one more.
  bool full = false;
  const auto take = [&] {
    const auto digit = static_cast<uint64_t>(written[at++] - '0');
    full = full || digits > (UINT64_MAX - digit) / 10;
    if (!full) digits = digits * 10 + digit;
    return !full;
  };
  while (is_digit()) exponent += take() ? 0 : 1;
  if (at < written.size() && written[at] != 'e' && written[at] != 'E') {
    ++at;  // the point; in some locales nlohmann's parser has a comma there
    full = false;
    while (is_digit()) exponent -= take() ? 1 : 0;
  }
  if (at < written.size()) {
    constexpr int64_t kBeyondAll = 1'000'000'000;
    ++at;
    const bool is_negative = at < written.size() && written[at] == '-';
    if (at < written.size() && !is_digit()) ++at;
    int64_t power = 0;
    for (; is_digit(); ++at) power = std::min(power * 10 + (written[at] - '0'), kBeyondAll);
    exponent += is_negative ? -power : power;
  }
  const double value = scaled(digits, exponent);
  return negative ? -value : value;
}

}  // namespace heed::text::huggingface
