// The bar on standard error: one line that is rewritten, on a terminal only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed::cli {

class ProgressBar {
 public:
  // Shown only where standard error is a terminal and `quiet` is not set.
  ProgressBar(int64_t total, const bool& quiet);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  [[nodiscard]] bool shown() const { return shown_; }
  // Another total: 0 while it is not known.
  void set_total(int64_t total) { total_ = total; }
  // [#####.....] 1,200/8,000  <details>  3:04 left. The time left comes from the progress since the first call.
  void update(int64_t done, std::string_view details = {});

 private:
  int64_t total_;
  bool shown_;
  int64_t first_ = -1;
  double started_ = 0, last_drawn_ = 0;
};

// The line as it is drawn, at most `width` columns. Details have two spaces between them; the last ones are left out
// where they do not fit. Seconds left below 0 are left out.
[[nodiscard]] std::string progress_line(int64_t done, int64_t total, std::string_view details, double seconds_left,
                                        int64_t width);

// Clears the bar, if one is drawn, so that something else can be printed; the next update draws it again.
void hide_progress();

}  // namespace heed::cli
