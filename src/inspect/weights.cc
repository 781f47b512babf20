#include "inspect/weights.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/palette.h"

namespace heed::inspect {
namespace {

std::vector<std::string> numbered(int64_t count) {
  std::vector<std::string> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(std::to_string(i));
  return out;
}

}  // namespace

Head check_head(std::string_view function, const Tensor& weights, const std::vector<std::string>& rows,
                const std::vector<std::string>& columns) {
  require(weights.defined() && weights.rank() == 2, function, "weights (L, S); found ",
          weights.defined() ? to_string(weights.shape()) : "an undefined tensor");
  const auto fits = [&](const std::vector<std::string>& names, int64_t count, std::string_view what) {
    require(names.empty() || static_cast<int64_t>(names.size()) == count, function, "a token for each of the ", count,
            " ", what, " of the weights; found ", names.size());
  };
  fits(rows, weights.size(0), "rows");
  fits(columns, weights.size(1), "columns");
  return {.weights = weights.to(DType::f32).contiguous(),
          .rows = rows.empty() ? numbered(weights.size(0)) : rows,
          .columns = columns.empty() ? numbered(weights.size(1)) : columns};
}

void append_weight(std::string& out, float weight) {
  if (!std::isfinite(weight)) {
    out += "null";
    return;
  }
  const float size = std::abs(weight);
  if (size < 5e-7f) {
    out += '0';
    return;
  }
  const int decimals = size >= 1000   ? 0
                       : size >= 100  ? 1
                       : size >= 10   ? 2
                       : size >= 1    ? 3
                       : size >= 0.1f ? 4
                       : size >= .01f ? 5
                                      : 6;
  std::array<char, 64> digits;
  char* end =
      std::to_chars(digits.data(), digits.data() + digits.size(), weight, std::chars_format::fixed, decimals).ptr;
  if (decimals > 0) {
    while (end[-1] == '0') --end;
    if (end[-1] == '.') --end;
  }
  out.append(digits.data(), end);
}

void append_json_strings(std::string& out, const std::vector<std::string>& texts) {
  out += '[';
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out += ',';
    out += '"' + escape_json(texts[i]) + '"';
  }
  out += ']';
}

void append_json_rows(std::string& out, const Head& head) {
  out += '[';
  for (int64_t i = 0; i < head.row_count(); ++i) {
    out += i > 0 ? ",[" : "[";
    for (int64_t j = 0; j < head.column_count(); ++j) {
      if (j > 0) out += ',';
      append_weight(out, head.row(i)[j]);
    }
    out += ']';
  }
  out += ']';
}

Rgb colour_of(float weight) {
  if (std::isnan(weight)) return {200, 60, 60};
  const float at = std::sqrt(std::clamp(weight, 0.0f, 1.0f)) * static_cast<float>(kRamp.size() - 1);
  const size_t low = std::min(kRamp.size() - 2, static_cast<size_t>(at));
  const float part = at - static_cast<float>(low);
  const auto mix = [part](uint8_t a, uint8_t b) {
    return static_cast<uint8_t>(
        std::lround(static_cast<float>(a) + (static_cast<float>(b) - static_cast<float>(a)) * part));
  };
  const Rgb a = kRamp[low], b = kRamp[low + 1];
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

std::string to_string(Rgb colour) {
  std::string out = "#";
  for (uint8_t channel : {colour.red, colour.green, colour.blue}) {
    out += "0123456789abcdef"[channel >> 4];
    out += "0123456789abcdef"[channel & 15];
  }
  return out;
}

}  // namespace heed::inspect
