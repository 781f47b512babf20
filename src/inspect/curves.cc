// A training's log.jsonl as curves: one JSON object a line, of type "start", "train", "valid" or "end".
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "heed/error.h"
#include "heed/inspect.h"
#include "heed/io.h"
#include "inspect/page.h"
#include "inspect/smaller_script.h"
#include "inspect/utf8.h"
#include "page_files.h"

namespace heed::inspect {
namespace {

using Point = std::pair<double, double>;  // update, value
using Series = std::vector<Point>;

constexpr std::array<const char*, 6> kKeys = {"loss",          "valid_loss",        "valid_bleu",
                                              "learning_rate", "tokens_per_second", "gradient_norm"};

struct Log {
  std::map<std::string, Series> series;
  double first = 0, last = 0;  // updates
  double seconds = 0;
  double final_loss = NAN, final_bleu = NAN;  // of the model as it was saved at the end
};

// Levels of [ and { in a line of a log; a deeper one is no log, and must not be recursed into.
constexpr int kDeepest = 16;

Log read_log(const std::filesystem::path& file) {
  const std::string text = io::read_file(file, int64_t{1} << 30);
  const std::string name = "\"" + escape_terminal(file.string()) + "\"";
  Log log;
  int64_t line_number = 0, points = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    const bool whole = end < text.size();
    at = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
      require(depth <= kDeepest, "plot_log", "a log nested at most ", kDeepest, " deep");
      return true;
    };
    const auto entry = nlohmann::json::parse(line, shallow, false);
    if (entry.is_discarded() || !entry.is_object()) {
      require(!whole, "plot_log", "a JSON object in line ", line_number, " of ", name, "; found something else");
      break;  // cut off by the end of the process that wrote it
    }
    const auto number = [&entry](const char* key) {
      const auto found = entry.find(key);
      return found != entry.end() && found->is_number() ? found->get<double>() : NAN;
    };
    const double update = number("update");
    if (!std::isfinite(update)) continue;
    const auto add = [&](const char* key, double value) {
      if (!std::isfinite(value)) return;
      Series& series = log.series[key];
      // A run that was resumed repeats the updates since its checkpoint: the later account holds.
      while (!series.empty() && series.back().first >= update) series.pop_back();
      series.emplace_back(update, value);
      ++points;
    };
    const auto type = entry.find("type");
    if (type != entry.end() && *type == "valid") {
      add("valid_loss", number("loss"));
      add("valid_bleu", number("bleu"));
    } else if (type != entry.end() && *type == "end") {
      log.final_loss = number("loss");
      log.final_bleu = number("bleu");
    } else {
      for (const char* key : {"loss", "learning_rate", "tokens_per_second", "gradient_norm"}) add(key, number(key));
    }
    if (const double seconds = number("seconds"); std::isfinite(seconds)) log.seconds = seconds;
  }
  require(points > 0, "plot_log", "lines with \"update\" and \"loss\" in ", name, "; found none");
  log.first = INFINITY;
  for (const auto& [key, series] : log.series) {
    log.first = std::min(log.first, series.front().first);
    log.last = std::max(log.last, series.back().first);
  }
  return log;
}

std::string number(double value, int digits = 5) {
  std::array<char, 64> text;
  const char* end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, digits).ptr;
  return std::string(static_cast<const char*>(text.data()), end);
}

std::string pixels(double value) {
  std::array<char, 64> text;
  const char* const end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, 1).ptr;
  return std::string(static_cast<const char*>(text.data()), end);
}

// "1.2k", "3M": ticks are read, not computed with.
std::string tick_text(double value) {
  const double size = std::abs(value);
  if (size >= 1e6) return number(value / 1e6, 4) + "M";
  if (size >= 1e4) return number(value / 1e3, 4) + "k";
  return number(value, 4);
}

// About `count` round numbers inside [low, high].
std::vector<double> ticks(double low, double high, int count) {
  const double span = std::max(high - low, 1e-12);
  const double power = std::pow(10.0, std::floor(std::log10(span / count)));
  const double rest = span / count / power;
  const double step = power * (rest < 1.5 ? 1 : rest < 3.5 ? 2 : rest < 7.5 ? 5 : 10);
  std::vector<double> out;
  for (double at = std::ceil(low / step - 1e-9); at * step <= high + step * 1e-9 && out.size() < 50; ++at)
    out.push_back(at == 0 ? 0 : at * step);
  return out;
}

// Where the drawing's panels are; the page's script draws its hair line between them.
constexpr double kLeft = 62, kRight = 984, kWidth = 1010, kTop = 34, kPanel = 200, kGap = 52;

struct Panel {
  std::string name;
  const Series* first = nullptr;
  const Series* second = nullptr;
  std::string first_name, second_name;
  bool from_zero = false;
};

// At most two points a pixel: the extremes of each block of a long series.
Series thinned(const Series& series) {
  constexpr size_t kMost = 1800;
  if (series.size() <= kMost) return series;
  Series out;
  const size_t block = (series.size() + kMost / 2 - 1) / (kMost / 2);
  for (size_t at = 0; at < series.size(); at += block) {
    const auto begin = series.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = series.begin() + static_cast<std::ptrdiff_t>(std::min(series.size(), at + block));
    const auto [low, high] = std::minmax_element(begin, end, [](auto& a, auto& b) { return a.second < b.second; });
    out.push_back(std::min(*low, *high));
    if (low != high) out.push_back(std::max(*low, *high));
  }
  return out;
}

void draw_panel(std::string& out, const Panel& panel, const Log& log, double top) {
  double low = INFINITY, high = -INFINITY;
  for (const Series* series : {panel.first, panel.second}) {
    if (series == nullptr) continue;
    for (const auto& [update, value] : *series) low = std::min(low, value), high = std::max(high, value);
  }
  if (panel.from_zero) low = std::min(0.0, low);
  if (high - low < 1e-12) low -= std::max(0.5 * std::abs(low), 1e-6), high += std::max(0.5 * std::abs(high), 1e-6);
  const double margin = 0.06 * (high - low);
  high += margin;
  if (!panel.from_zero) low -= margin;
  const auto x = [&](double update) {
    return kLeft + (update - log.first) / std::max(1.0, log.last - log.first) * (kRight - kLeft);
  };
  const auto y = [&](double value) { return top + kPanel - (value - low) / (high - low) * kPanel; };

  out += "<text class=\"name\" x=\"" + pixels(kLeft) + "\" y=\"" + pixels(top - 11) + "\">" + panel.name + "</text>\n";
  double key = kRight;
  const auto write_key = [&](const std::string& text, const char* style) {
    out += std::string("<text class=\"") + style + "\" text-anchor=\"end\" x=\"" + pixels(key) + "\" y=\"" +
           pixels(top - 11) + "\">" + text + "</text>\n";
    key -= 7.0 * static_cast<double>(text.size()) + 20;
  };
  if (panel.second != nullptr)
    write_key(panel.second_name + " " + number(panel.second->back().second, 4), "key-second");
  if (panel.first != nullptr) write_key(panel.first_name + " " + number(panel.first->back().second, 4), "key-first");
  for (double value : ticks(low, high, 5)) {
    out += "<line class=\"rule\" x1=\"" + pixels(kLeft) + "\" x2=\"" + pixels(kRight) + "\" y1=\"" + pixels(y(value)) +
           "\" y2=\"" + pixels(y(value)) + "\"/><text class=\"tick\" text-anchor=\"end\" x=\"" + pixels(kLeft - 8) +
           "\" y=\"" + pixels(y(value) + 4) + "\">" + tick_text(value) + "</text>\n";
  }
  for (double update : ticks(log.first, log.last, 8))
    out += "<text class=\"tick\" text-anchor=\"middle\" x=\"" + pixels(x(update)) + "\" y=\"" +
           pixels(top + kPanel + 17) + "\">" + tick_text(update) + "</text>\n";
  const auto draw = [&](const Series* series, const char* style, bool dots) {
    if (series == nullptr) return;
    const Series points = thinned(*series);
    out += std::string("<polyline class=\"") + style + "\" points=\"";
    for (const auto& [update, value] : points) out += pixels(x(update)) + "," + pixels(y(value)) + " ";
    out += "\"/>\n";
    if (!dots || points.size() > 120) return;
    for (const auto& [update, value] : points)
      out += "<circle class=\"dot\" r=\"2.4\" cx=\"" + pixels(x(update)) + "\" cy=\"" + pixels(y(value)) + "\"/>";
    out += '\n';
  };
  draw(panel.first, "first", false);
  draw(panel.second, "second", true);
}

std::vector<Panel> panels_of(const Log& log) {
  const auto series = [&log](const char* key) {
    const auto found = log.series.find(key);
    return found == log.series.end() ? nullptr : &found->second;
  };
  std::vector<Panel> all = {
      {"Loss", series("loss"), series("valid_loss"), "training", "validation", false},
      {"BLEU", nullptr, series("valid_bleu"), "", "validation", false},
      {"Learning rate", series("learning_rate"), nullptr, "now", "", true},
      {"Speed, tokens a second", series("tokens_per_second"), nullptr, "last", "", true},
      {"Gradient norm", series("gradient_norm"), nullptr, "last", "", true},
  };
  std::erase_if(all, [](const Panel& panel) { return panel.first == nullptr && panel.second == nullptr; });
  return all;
}

std::string draw(const Log& log, std::string_view style, const std::string& title) {
  const std::vector<Panel> panels = panels_of(log);
  const double height = kTop + static_cast<double>(panels.size()) * (kPanel + kGap);
  const std::string size = pixels(kWidth) + " " + pixels(height);
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" width=\"" + pixels(kWidth) +
                    "\" height=\"" + pixels(height) +
                    "\" font-family=\"Noto Sans, Helvetica, Arial, sans-serif\" role=\"img\">\n<title>" +
                    escape_html(label(title, 200)) + "</title>\n";
  if (!style.empty()) out += "<style>" + std::string(style) + "</style>\n";
  out += "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";
  double top = kTop;
  for (const Panel& panel : panels) {
    draw_panel(out, panel, log, top);
    top += kPanel + kGap;
  }
  out += "</svg>\n";
  return out;
}

// "loss 2.31, best validation 2.45 at update 12,000, best BLEU 38.2, 24 minutes"
std::string headline(const Log& log) {
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  if (const auto found = log.series.find("loss"); found != log.series.end())
    add("loss " + number(found->second.back().second, 4));
  const auto less = [](const Point& a, const Point& b) { return a.second < b.second; };
  if (const auto found = log.series.find("valid_loss"); found != log.series.end()) {
    const Point best = *std::min_element(found->second.begin(), found->second.end(), less);
    add("best validation loss " + number(best.second, 4) + " at update " + number(best.first, 9));
  }
  if (const auto found = log.series.find("valid_bleu"); found != log.series.end())
    add("best BLEU " + number(std::max_element(found->second.begin(), found->second.end(), less)->second, 4));
  if (std::isfinite(log.final_loss)) add("in the end " + number(log.final_loss, 4));
  if (std::isfinite(log.final_bleu)) add("BLEU " + number(log.final_bleu, 4));
  if (log.seconds > 0)
    add(log.seconds < 120 ? number(log.seconds, 3) + " seconds" : number(log.seconds / 60, 3) + " minutes");
  if (!out.empty()) out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  return out;
}

std::string title_of(const std::filesystem::path& log) {
  const std::filesystem::path folder = std::filesystem::absolute(log).lexically_normal().parent_path().filename();
  return (folder.empty() ? log : folder / log.filename()).string();
}

}  // namespace

std::string plot_log_svg(const std::filesystem::path& file) {
  return draw(read_log(file), page_files::kCurvesStyle, title_of(file));
}

std::string plot_log(const std::filesystem::path& file) {
  const Log log = read_log(file);
  const std::string title = title_of(file);
  const double bottom = kTop + static_cast<double>(panels_of(log).size()) * (kPanel + kGap) - kGap;
  std::string record =
      "{\"title\":\"" + escape_json(escape_terminal(title)) + "\",\"headline\":\"" + escape_json(headline(log)) +
      "\",\"first\":" + number(log.first, 12) + ",\"last\":" + number(log.last, 12) + ",\"left\":" + pixels(kLeft) +
      ",\"right\":" + pixels(kRight) + ",\"top\":" + pixels(kTop) + ",\"bottom\":" + pixels(bottom) + ",\"series\":{";
  bool more = false;
  for (const char* key : kKeys) {
    const auto found = log.series.find(key);
    if (found == log.series.end()) continue;
    record += std::string(more ? "," : "") + "\n\"" + key + "\":[";
    more = true;
    for (const auto& [update, value] : thinned(found->second)) {
      if (record.back() != '[') record += ',';
      record += "[" + number(update, 12) + "," + number(value, 6) + "]";
    }
    record += ']';
  }
  record += "}}\n";
  return make_page({.skeleton = page_files::kCurvesPage,
                    .title = title + " · training",
                    .style = std::string(page_files::kCurvesStyle),
                    .script = smaller_script(page_files::kCurvesScript),
                    .record = record,
                    .drawing = draw(log, "", title)});
}

}  // namespace heed::inspect
