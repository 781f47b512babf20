// Training for Python: heed/train.h in a thread of its own, while the thread that called looks for signals and calls
// back. python/heed/training.py makes recipes of dicts.
#include "python/training.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "heed/train.h"
#include "python/interrupt.h"

namespace py = pybind11;

namespace heed::python {
namespace {

namespace fs = std::filesystem;

// The thread that trains hands what it has to say to the one that waits for it, and goes on when that has been said:
// Python's functions run where the user called train(), as do the handlers of signals.
class Training {
 public:
  using Work = std::function<train::Outcome(const train::Callbacks&)>;

  // `progress` and `message` are called with the GIL. What they throw, and what a signal's handler raises, stops the
  // training with a checkpoint and is thrown then. Called without the GIL.
  train::Outcome run(const Work& work, const std::function<void(const train::Progress&)>& progress,
                     const std::function<void(std::string_view)>& message) {
    train::Callbacks callbacks;
    callbacks.stop = &stop_;
    callbacks.progress = [&](const train::Progress& p) { say([&] { progress(p); }); };
    callbacks.message = [&](std::string_view text) { say([&] { message(text); }); };
    train::Outcome outcome{};
    std::exception_ptr error;
    std::thread worker([&] {
      try {
        outcome = work(callbacks);
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      done_ = true;
      changed_.notify_all();
    });
    listen();
    worker.join();
    if (raised_) std::rethrow_exception(raised_);
    if (error) std::rethrow_exception(error);
    return outcome;
  }

 private:
  // In the thread that trains.
  void say(const std::function<void()>& what) {
    std::unique_lock lock(mutex_);
    said_ = &what;
    changed_.notify_all();
    changed_.wait(lock, [&] { return said_ == nullptr; });
  }

  // In the thread that called, until the other one is done.
  void listen() {
    constexpr auto kLook = std::chrono::milliseconds(50);
    std::unique_lock lock(mutex_);
    while (!done_) {
      changed_.wait_for(lock, kLook, [&] { return done_ || said_ != nullptr; });
      const std::function<void()>* const what = said_;
      lock.unlock();
      call([&] {
        raise_if_interrupted();
        if (what != nullptr && !raised_) (*what)();
      });
      lock.lock();
      if (what != nullptr) said_ = nullptr;
      changed_.notify_all();
    }
  }

  template <class Call>
  void call(Call&& f) {
    const py::gil_scoped_acquire acquire;  // errors of Python are made and dropped with the GIL
    try {
      f();
    } catch (...) {
      if (!raised_) raised_ = std::current_exception();
      stop_ = true;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* said_ = nullptr;
  bool done_ = false;
  std::atomic<bool> stop_ = false;
  std::exception_ptr raised_;
};

// The recipe of a file, of the training that goes on, or of nothing but the changes.
train::Recipe recipe_of(const fs::path& file, const fs::path& data, const fs::path& folder, bool resume,
                        const std::vector<std::pair<std::string, std::string>>& changes) {
  const auto change = [&](train::Recipe& recipe) {
    for (const auto& [key, value] : changes) train::set_option(recipe, key, value);
  };
  std::error_code ignored;
  if (!file.empty()) return train::read_recipe(file, data, change);
  if (resume && fs::exists(folder / "recipe.json", ignored))
    return train::read_recipe(folder / "recipe.json", ".", change);  // its paths are relative to the current folder
  train::Recipe recipe;
  train::set_option(recipe, "preset", recipe.preset);  // the preset's sizes become the model's
  change(recipe);
  return recipe;
}

py::tuple tuple_of(const train::Progress& p) {
  return py::make_tuple(p.update, p.epoch, p.max_updates, p.loss, p.learning_rate, p.gradient_norm, p.tokens_per_second,
                        p.seconds, p.valid_loss, p.valid_bleu, p.valid_accuracy, p.best, p.valid_pearson,
                        p.valid_spearman);
}

std::string train_recipe(const fs::path& file, const fs::path& data, const fs::path& folder, bool resume,
                         const std::vector<std::pair<std::string, std::string>>& changes, const py::object& on_progress,
                         const py::object& on_message) {
  const auto progress = [&](const train::Progress& p) {
    if (!on_progress.is_none()) on_progress(tuple_of(p));
  };
  const auto message = [&](std::string_view text) {
    if (!on_message.is_none()) on_message(std::string(text));
  };
  const WithoutGil without_gil;
  const train::Recipe recipe = recipe_of(file, data, folder, resume, changes);
  Training training;
  const train::Outcome outcome =
      training.run([&](const train::Callbacks& callbacks) { return train::train(recipe, folder, resume, callbacks); },
                   progress, message);
  switch (outcome) {
    case train::Outcome::finished: return "finished";
    case train::Outcome::stopped_early: return "stopped early";
    case train::Outcome::interrupted: return "interrupted";
  }
  return "";
}

}  // namespace

void define_training(py::module_& module) {
  module.def("train", &train_recipe);
  module.def("recipe_keys", [] {
    std::vector<std::string> keys;
    for (const train::RecipeField& field : train::recipe_fields()) keys.push_back(field.key);
    return keys;
  });
}

}  // namespace heed::python
