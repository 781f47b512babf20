// Texts shared among threads, with warnings and errors as if they were read one by one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/threads.h"
#include "heed/pipelines.h"

namespace heed::pipelines {

// Appends to `made` what read(text, options) gives for each text of [begin, end), `text` being its place in the call.
// Several threads call `read`, each for other texts; but `options.on_warning` is called on the calling thread only, in
// the order of the texts, and `options.name` too. An exception of `read` is thrown on: that of the first text that has
// one, with what stands before it in `made`. Now and then calls `progress` (if any) with 0, which may throw to end the
// work.
template <class Made, class Read>
void read_texts(int64_t begin, int64_t end, const TextOptions& options, const Read& read,
                const std::function<void(int64_t done)>& progress, std::vector<Made>& made) {
  constexpr int64_t kTexts = 1024;  // between two calls of `progress`
  constexpr int64_t kGrain = 16;    // texts at least for each thread: to wake one takes longer than a text
  for (int64_t from = begin; from < end; from += kTexts) {
    if (progress) progress(0);
    const int64_t count = std::min(kTexts, end - from);
    std::vector<Made> results(static_cast<size_t>(count));
    std::vector<std::vector<TextWarning>> warnings(static_cast<size_t>(count));
    std::atomic<int64_t> good = count;  // so many texts have no exception
    parallel_for(count, kGrain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last && i < good; ++i) {
        TextOptions own = options;
        own.name = {};
        if (options.on_warning)
          own.on_warning = [&, i](const TextWarning& told) { warnings[static_cast<size_t>(i)].push_back(told); };
        try {
          results[static_cast<size_t>(i)] = read(from + i, own);
        } catch (...) {
          for (int64_t before = good; i < before && !good.compare_exchange_weak(before, i);) {
          }
        }
      }
    });
    for (int64_t i = 0; i < good; ++i) {
      for (const TextWarning& told : warnings[static_cast<size_t>(i)]) options.on_warning(told);
      made.push_back(std::move(results[static_cast<size_t>(i)]));
    }
    // The first that has an exception is read again, here, where it is thrown.
    for (int64_t i = good; i < count; ++i) made.push_back(read(from + i, options));
  }
}

}  // namespace heed::pipelines
