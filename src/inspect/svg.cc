// One head as a drawing: a grid of coloured cells, tokens on both axes.
#include <algorithm>
#include <array>
#include <charconv>

#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/palette.h"
#include "inspect/utf8.h"
#include "inspect/weights.h"

namespace heed::inspect {
namespace {

constexpr int64_t kMostCells = 1'000'000;
constexpr int64_t kLongestLabel = 24;  // code points

// Labels are about this wide: a terminal column at 13 pixels, measured for Noto Sans and its CJK companion.
constexpr double kColumnPixels = 7.2;

std::string pixels_of(double value) {
  std::array<char, 64> digits;
  char* end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed, 1).ptr;
  if (end[-1] == '0') end -= 2;
  return {digits.data(), end};
}

double widest(const std::vector<std::string>& names) {
  int64_t columns = 1;
  for (const std::string& name : names) columns = std::max(columns, terminal_width(label(name, kLongestLabel)));
  return static_cast<double>(columns) * kColumnPixels;
}

}  // namespace

std::string to_svg(const Tensor& weights, const std::vector<std::string>& rows, const std::vector<std::string>& columns,
                   const std::string& title) {
  const Head head = check_head("inspect::to_svg", weights, rows, columns);
  const int64_t cells = head.row_count() * head.column_count();
  require(cells <= kMostCells, "inspect::to_svg", "at most ", kMostCells, " cells in one drawing; found ", cells,
          " (a PNG holds more)");
  const int64_t longest = std::max(head.row_count(), head.column_count());
  const double cell = longest <= 40 ? 26 : longest <= 100 ? 14 : longest <= 300 ? 6 : 3;
  const int64_t every = cell >= 13 ? 1 : cell >= 6 ? 3 : 5;  // labels 13 pixels high must not overlap
  const double left = widest(head.rows) + 20;
  const double slanted = widest(head.columns);
  const double top = slanted * 0.766 + 48;  // sin 50°
  const double width = std::max(left + static_cast<double>(head.column_count()) * cell + slanted * 0.643 + 12, 320.0);
  const double height = top + static_cast<double>(head.row_count()) * cell + 14;
  const std::string caption = escape_html(label(title, 200));

  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + pixels_of(width) + "\" height=\"" +
                    pixels_of(height) + "\" viewBox=\"0 0 " + pixels_of(width) + " " + pixels_of(height) +
                    "\" font-family=\"Noto Sans, Noto Sans CJK SC, Helvetica, Arial, sans-serif\" font-size=\"13\" "
                    "fill=\"#1c2529\">\n<title>" +
                    caption + "</title>\n<rect width=\"" + pixels_of(width) + "\" height=\"" + pixels_of(height) +
                    "\" fill=\"#ffffff\"/>\n<text x=\"10\" y=\"21\" fill=\"#5d6a70\">" + caption + "</text>\n<g>\n";
  for (int64_t j = 0; j < head.column_count(); j += every) {
    const std::string x = pixels_of(left + (static_cast<double>(j) + 0.5) * cell + 3), y = pixels_of(top - 7);
    out += "<text x=\"" + x + "\" y=\"" + y + "\" transform=\"rotate(-50 " + x + " " + y + ")\">" +
           escape_html(label(head.columns[static_cast<size_t>(j)], kLongestLabel)) + "</text>\n";
  }
  out += "</g>\n<g text-anchor=\"end\">\n";
  for (int64_t i = 0; i < head.row_count(); i += every)
    out += "<text x=\"" + pixels_of(left - 8) + "\" y=\"" +
           pixels_of(top + (static_cast<double>(i) + 0.5) * cell + 4.5) + "\">" +
           escape_html(label(head.rows[static_cast<size_t>(i)], kLongestLabel)) + "</text>\n";
  out += "</g>\n<g shape-rendering=\"crispEdges\">\n";
  const std::string size = pixels_of(cell >= 6 ? cell - 1 : cell);
  for (int64_t i = 0; i < head.row_count(); ++i) {
    for (int64_t j = 0; j < head.column_count(); ++j) {
      const float weight = head.row(i)[j];
      out += "<rect x=\"" + pixels_of(left + static_cast<double>(j) * cell) + "\" y=\"" +
             pixels_of(top + static_cast<double>(i) * cell) + "\" width=\"" + size + "\" height=\"" + size +
             "\" fill=\"" + to_string(colour_of(weight)) + "\"><title>";
      append_weight(out, weight);
      out += "</title></rect>\n";
    }
  }
  out += "</g>\n</svg>\n";
  return out;
}

}  // namespace heed::inspect
