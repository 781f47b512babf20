#include "base/numbers.h"

namespace heed {

std::string with_commas(int64_t number) {
  std::string digits = std::to_string(number);
  const size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

}  // namespace heed
