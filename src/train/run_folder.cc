// Making the folder of a training, and undoing that.
#include "train/run_folder.h"

#include <algorithm>
#include <random>

#include "base/files.h"
#include "base/fork.h"
#include "heed/error.h"
#include "models/sentence_folder.h"
#include "models/sentence_settings.h"
#include "text/tokenizers.h"
#include "train/sentence_modules.h"
#include "train/start.h"

namespace heed::train {

namespace {

namespace fs = std::filesystem;

// What a training writes before its first checkpoint, beside the tokenizers: folders behind what is in them.
constexpr const char* kOwn[] = {".lock",       "config.json", "recipe.json",  "log.jsonl",
                                "heldout.tsv", "checkpoints", "modules.json", "config_sentence_transformers.json"};
constexpr const char* kModuleFiles[] = {"config.json", "model.safetensors"};

std::vector<const char*> all_own() {
  std::vector<const char*> names(std::begin(kOwn), std::end(kOwn));
  names.insert(names.end(), tokenizer_files().begin(), tokenizer_files().end());
  names.insert(names.end(), models::sentence_settings_files().begin(), models::sentence_settings_files().end());
  return names;
}

// The folders of modules that modules.json in `folder` names, below it.
std::vector<fs::path> module_folders(const fs::path& folder) {
  std::vector<fs::path> folders;
  if (!models::has_sentence_modules(folder)) return folders;
  try {
    for (const models::SentenceModule& module : models::read_sentence_modules(folder)) {
      const fs::path below = module.folder.lexically_relative(folder);
      if (!below.empty() && below != ".") folders.push_back(below);
    }
  } catch (const Error&) {  // then nothing was written for it
  }
  return folders;
}

}  // namespace

std::vector<fs::path> modules_to_write(const Recipe& recipe) {
  if (recipe.task != "sentence_embedding" || recipe.from.empty()) return {};
  const fs::path from = start_folder(recipe);
  return models::has_sentence_modules(from) ? module_folders(from) : std::vector<fs::path>{kMeanPooling};
}

std::span<const char* const> tokenizer_files() {
  static const std::vector<const char*> names = [] {
    std::vector<const char*> all(text::tokenizer_files().begin(), text::tokenizer_files().end());
    all.push_back("generation_config.json");
    return all;
  }();
  return names;
}
const MadeBeforeFork kTokenizerFiles([] { (void)tokenizer_files(); });

void require_begun(const fs::path& folder) {
  constexpr const char* kAdvice = "; leave out --resume to begin one";
  std::error_code ignored;
  require(fs::is_directory(folder, ignored), "train", files::quoted(folder),
          ": a folder with a training to continue; found no such folder", kAdvice);
  // Every training makes this file first.
  require(fs::exists(folder / ".lock", ignored), "train", files::quoted(folder),
          ": a folder with a training to continue; found none in it", kAdvice);
}

void require_unused(const fs::path& folder, bool has_checkpoints, std::span<const fs::path> modules) {
  require(!has_checkpoints && !fs::exists(folder / "log.jsonl"), "train", files::quoted(folder),
          ": a folder without a training; found one");
  require(!fs::exists(folder / "model.safetensors"), "train", files::quoted(folder),
          ": a folder without a model; found one");
  // The new model would lose them, or be read with them.
  std::vector<const char*> of_models = {"config.json", "modules.json", "config_sentence_transformers.json"};
  of_models.insert(of_models.end(), tokenizer_files().begin(), tokenizer_files().end());
  of_models.insert(of_models.end(), models::sentence_settings_files().begin(), models::sentence_settings_files().end());
  for (const char* const name : of_models) {
    require(!fs::exists(folder / name), "train", files::quoted(folder), ": a folder without files of a model; found ",
            name);
  }
  for (const fs::path& below : modules) {
    for (const char* const name : kModuleFiles) {
      require(!fs::exists(folder / below / name), "train", files::quoted(folder),
              ": a folder without files of a model; found ", (below / name).string());
    }
  }
}

void remove_half_written(const fs::path& folder) {
  std::vector<fs::path> places = {folder};
  for (const fs::path& below : module_folders(folder)) places.push_back(folder / below);
  std::error_code ignored;
  for (const fs::path& place : places) {
    for (const auto& entry : fs::directory_iterator(place, ignored)) {
      const std::string name = entry.path().filename().string();
      const auto is_of = [&](const char* file) { return name.starts_with("." + std::string(file) + "."); };
      if (name.ends_with(".tmp") && (is_of("model.safetensors") || std::ranges::any_of(all_own(), is_of)))
        fs::remove(entry.path(), ignored);
    }
  }
}

void require_only_begun(const fs::path& folder, const std::function<void(std::string_view)>& message) {
  require(
      !fs::exists(folder / "model.safetensors"), "train", files::quoted(folder / "checkpoints"),
      ": a checkpoint to go on from; found none that is whole, and a model, which would be lost (name another folder "
      "to begin again)");
  if (message) message("no checkpoint was written before: training begins again");
}

std::string mark_of_this_run() {
  std::random_device random;
  return "training " + std::to_string(random()) + "-" + std::to_string(random()) + "\n";
}

RunFolder::RunFolder(const fs::path& folder) : folder_(folder) {
  std::error_code error;
  for (fs::path missing = fs::absolute(folder, error).lexically_normal(); !fs::exists(missing, error);
       missing = missing.parent_path()) {
    if (missing.has_filename()) made_.push_back(missing);  // "folder/" is followed by "folder"
  }
  for (const auto& entry : fs::directory_iterator(folder, error)) before_.insert(entry.path().filename());
  fs::create_directories(folder, error);
  require(!error, "train", files::quoted(folder), ": a folder that can be made; ", error.message());
}

void RunFolder::take_back_modules() const {
  std::error_code ignored;
  for (const fs::path& below : module_folders(folder_)) {
    if (before_.contains(*below.begin())) continue;
    for (const char* const name : kModuleFiles) fs::remove(folder_ / below / name, ignored);
    for (fs::path empty = below; !empty.empty(); empty = empty.parent_path()) fs::remove(folder_ / empty, ignored);
  }
}

void RunFolder::take_back() const {
  std::error_code ignored;
  const fs::path checkpoints = folder_ / "checkpoints";
  if (fs::exists(checkpoints, ignored) && !fs::is_empty(checkpoints, ignored)) return;
  if (!before_.contains("modules.json")) take_back_modules();
  for (const char* const name : all_own()) {
    if (before_.contains(name)) continue;
    fs::remove(folder_ / name, ignored);
  }
  for (const fs::path& folder : made_) fs::remove(folder, ignored);  // only if it is empty
}

}  // namespace heed::train
