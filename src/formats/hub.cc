// Models by name, in the cache that Hugging Face's tools keep on this machine:
//
//   CACHE/models--ORG--NAME/refs/main            the commit that "main" was when it was downloaded
//   CACHE/models--ORG--NAME/snapshots/COMMIT/    the files, most of them links into ../../blobs
#include <algorithm>
#include <cstdlib>

#include "base/files.h"
#include "heed/error.h"
#include "heed/io.h"

namespace heed::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFindModel = "find_model_folder";

// The value of an environment variable, "~" in front replaced; empty where there is none.
fs::path path_from(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return {};
  const std::string text = value;
  const char* const home = std::getenv("HOME");
  if (home != nullptr && (text == "~" || text.starts_with("~/"))) return fs::path(home + text.substr(1));
  return text;
}

// Where Hugging Face's tools look, in their order.
fs::path cache_folder() {
  for (const char* const variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})  // the second is the older name
    if (const fs::path cache = path_from(variable); !cache.empty()) return cache;
  if (const fs::path home = path_from("HF_HOME"); !home.empty()) return home / "hub";
  if (const fs::path cache = path_from("XDG_CACHE_HOME"); !cache.empty()) return cache / "huggingface" / "hub";
  if (const fs::path home = path_from("HOME"); !home.empty()) return home / ".cache" / "huggingface" / "hub";
  return {};
}

bool is_name_part(std::string_view part) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !part.empty() && part.size() <= 96 && std::ranges::all_of(part, allowed) && part.front() != '.' &&
         part.front() != '-' && part.back() != '.' && part.back() != '-' && part.find("..") == std::string_view::npos &&
         part.find("--") == std::string_view::npos;
}

// "ORG/NAME" or "NAME": no more than one slash.
bool is_model_name(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) return is_name_part(name);
  return is_name_part(name.substr(0, slash)) && is_name_part(name.substr(slash + 1));
}

std::string folder_of(std::string name) {
  if (const size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return "models--" + name;
}

std::string commit_in(const fs::path& reference) {
  std::string commit = files::read_all(reference, 1024, kFindModel);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r')) commit.pop_back();
  const auto hexadecimal = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  require(commit.size() == 40 && std::ranges::all_of(commit, hexadecimal), kFindModel, files::quoted(reference),
          ": a commit, 40 hexadecimal digits; found ", files::quoted(commit.substr(0, 60)));
  return commit;
}

}  // namespace

fs::path find_model_folder(const std::string& name, const fs::path& other_cache) {
  std::error_code ignored;
  if (fs::exists(name, ignored)) return name;
  require(is_model_name(name), kFindModel, "a model folder at ", name, "; found nothing");
  const fs::path cache = other_cache.empty() ? cache_folder() : other_cache;
  const bool lacks_organisation = name.find('/') == std::string::npos;  // as few models of the hub do
  const std::string download =
      "Download it with: hf download " + name +
      (lacks_organisation ? " (or ORG/" + name + ", if it belongs to an organisation such as sentence-transformers)"
                          : "");
  require(!cache.empty(), kFindModel, "a folder ", files::quoted(name),
          ", or HOME, which says where downloaded models are; found neither. ", download);
  const fs::path model = cache / folder_of(name), reference = model / "refs" / "main";
  require(fs::exists(reference, ignored), kFindModel, "a folder ", files::quoted(name),
          ", or a model of that name in the cache ", files::quoted(cache), "; found neither. ", download);
  const fs::path snapshot = model / "snapshots" / commit_in(reference);
  require(fs::is_directory(snapshot, ignored), kFindModel, files::quoted(snapshot),
          ": the files of the model; found none. ", download);
  return snapshot;
}

}  // namespace heed::io
