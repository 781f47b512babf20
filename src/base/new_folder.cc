// Several files of a folder, written together or not at all.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "base/files.h"
#include "heed/error.h"

namespace heed::files {
namespace {

namespace fs = std::filesystem;

// A new folder inside of `folder`, which is made where it is missing. What was made goes away again unless it is kept.
class Stage {
 public:
  Stage(const Path& folder, std::string_view function) : folder_(folder), function_(function) {
    std::error_code error;
    for (Path at = folder; !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
      made_.push_back(at);
      if (at == at.parent_path()) break;
    }
    fs::create_directories(folder, error);
    std::string name = (folder / ".new-XXXXXX").string();
    if (!error && ::mkdtemp(name.data()) == nullptr) error = std::error_code(errno, std::generic_category());
    if (error) {
      remove_made();
      heed::fail(function, quoted(folder), ": a folder that can be made; ", error.message());
    }
    path_ = name;
  }
  ~Stage() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    if (!kept_) remove_made();
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  [[nodiscard]] const Path& path() const { return path_; }

  void keep(std::span<const Path> stale) {
    std::error_code error;
    std::vector<Path> names;
    for (const auto& entry : fs::recursive_directory_iterator(path_, error))
      if (!entry.is_directory()) names.push_back(entry.path().lexically_relative(path_));
    check(!error, path_, "a folder that can be read; " + error.message());
    for (const Path& name : names) {  // before the first file is moved
      fs::create_directories((folder_ / name).parent_path(), error);
      check(!error, (folder_ / name).parent_path(), "a folder that can be made; " + error.message());
      check(!fs::is_directory(folder_ / name, error), folder_ / name, "a file or a new name; found a folder");
    }
    kept_ = true;
    for (const Path& name : names) {
      fs::rename(path_ / name, folder_ / name, error);
      check(!error, folder_ / name, "a file that can be renamed to its final name; " + error.message());
    }
    for (const Path& name : stale)
      if (std::ranges::find(names, name) == names.end()) fs::remove(folder_ / name, error);
    sync_folder(folder_, function_);
  }

 private:
  void check(bool ok, const Path& path, const std::string& what) const {
    require(ok, function_, quoted(path), ": ", what);
  }
  void remove_made() const {
    std::error_code ignored;
    for (const Path& folder : made_) fs::remove(folder, ignored);  // the innermost first, if it is empty
  }

  Path folder_, path_;
  std::string function_;
  std::vector<Path> made_;
  bool kept_ = false;
};

}  // namespace

void write_folder(const Path& folder, std::string_view function, std::span<const Path> stale,
                  const std::function<void(const Path&)>& write) {
  const Path place = folder.has_filename() ? folder : folder.parent_path();  // without a slash at the end
  Stage stage(place, function);
  try {
    write(stage.path());
  } catch (const Error& error) {
    std::string message = error.what();
    const std::string inside = stage.path().string(), name = place.string();
    for (size_t at = 0; (at = message.find(inside, at)) != std::string::npos; at += name.size())
      message.replace(at, inside.size(), name);
    throw Error(message);
  }
  stage.keep(stale);
}

}  // namespace heed::files
