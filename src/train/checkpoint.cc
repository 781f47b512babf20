// The checkpoint store.
#include "train/checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <system_error>

#include "base/files.h"
#include "formats/json.h"
#include "heed/error.h"
#include "models/weights.h"
#include "train/sentence_files.h"

namespace heed::train {

namespace {

namespace fs = std::filesystem;
using io::Json;

constexpr const char* kFiles[] = {"config.json", "model.safetensors", "optimizer.safetensors"};

// The files of a checkpoint beside its state.
std::vector<const char*> files_in(const fs::path& folder) {
  std::vector<const char*> files(std::begin(kFiles), std::end(kFiles));
  std::error_code ignored;
  if (fs::exists(folder / kDenseFile, ignored)) files.push_back(kDenseFile);
  return files;
}

constexpr int64_t kMaxStateBytes = 1 << 20;
constexpr int64_t kMaxCount = int64_t{1} << 53;

std::string state_text(const TrainingState& state, const fs::path& folder) {
  Json files = Json::object();
  for (const char* name : files_in(folder)) files[name] = to_string(files::checksum(folder / name));
  Json json = {{"format", 1},
               {"update", state.update},
               {"epoch", state.epoch},
               {"position", state.position},
               {"adam_steps", state.adam_steps},
               {"without_better", state.without_better},
               {"best", state.best ? Json(*state.best) : Json(nullptr)},
               {"best_update", state.best_update},
               {"loss_sum", state.loss_sum},
               {"loss_tokens", state.loss_tokens},
               {"seconds", state.seconds},
               {"data_checksum", state.data_checksum},
               {"scheduled", state.scheduled},
               {"recipe", state.recipe},
               {"files", files}};
  if (!state.validated) json["validated"] = false;
  const std::string inner = io::json_text(json);
  return io::json_text({{"crc32", files::crc32(inner)}, {"state", json}}, 1) + "\n";
}

// NOLINTNEXTLINE(bugprone-exception-escape): moving nlohmann's ordered JSON throws nothing but does not say so
struct ParsedState {
  TrainingState state;
  Json files;
};

ParsedState parse_state(const fs::path& file) {
  const auto wrong = [&](std::string_view found) {
    fail("checkpoint", files::quoted(file), ": the state of a training; found ", found);
  };
  const Json json = io::parse_json(files::read_all(file, kMaxStateBytes, "checkpoint")).value;
  if (!json.is_object() || !json.contains("state") || !json.contains("crc32")) wrong("no such JSON");
  const Json& inner = json["state"];
  if (!inner.is_object()) wrong("no table \"state\"");
  if (json["crc32"] != files::crc32(io::json_text(inner))) wrong("another checksum");
  ParsedState parsed;
  try {
    if (inner.at("format") != 1) wrong("format " + io::json_text(inner.at("format")));
    const auto whole = [&](const char* key, int64_t low, int64_t high) {
      const Json& value = inner.at(key);
      const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(high)
                                                   : value.is_number_integer() && value.get<int64_t>() >= low;
      if (!fits) wrong(std::string(key) + " " + io::json_text(value));
      return value.get<int64_t>();
    };
    const auto count = [&](const char* key) { return whole(key, -1, kMaxCount); };
    TrainingState& s = parsed.state;
    s.update = count("update");
    s.epoch = count("epoch");
    s.position = count("position");
    s.adam_steps = count("adam_steps");
    s.without_better = count("without_better");
    if (!inner.at("best").is_null()) s.best = inner.at("best").get<double>();
    s.best_update = count("best_update");
    s.loss_sum = inner.at("loss_sum").get<double>();
    s.loss_tokens = count("loss_tokens");
    s.seconds = inner.at("seconds").get<double>();
    s.data_checksum = static_cast<uint32_t>(whole("data_checksum", 0, UINT32_MAX));
    s.scheduled = inner.at("scheduled").get<bool>();
    if (inner.contains("validated")) s.validated = inner.at("validated").get<bool>();
    s.recipe = inner.at("recipe").get<std::string>();
    parsed.files = inner.at("files");
  } catch (const Json::exception& error) {
    wrong(error.what());
  }
  return parsed;
}

void check_files(const fs::path& folder, const Json& expected) {
  std::vector<const char*> names = files_in(folder);
  const bool has_dense = expected.is_object() && expected.contains(kDenseFile);
  if (has_dense && names.size() == std::size(kFiles)) names.push_back(kDenseFile);  // and is missing
  for (const char* name : names) {
    const std::string found = to_string(files::checksum(folder / name));
    const bool stated = expected.is_object() && expected.contains(name) && expected[name].is_string();
    const std::string wanted = stated ? expected[name].get<std::string>() : "";
    require(found == wanted, "checkpoint", files::quoted(folder / name), ": checksum ", wanted, "; found ", found);
  }
}

// Reads back what was just written.
void check_written(const fs::path& file, const io::Tensors& tensors) {
  const io::Tensors found = io::read_safetensors(file).tensors;
  require(found.size() == tensors.size(), "checkpoint", files::quoted(file), ": ", tensors.size(),
          " tensors as written; found ", found.size());
  for (const auto& [name, tensor] : tensors) {
    const auto it = found.find(name);
    require(it != found.end() && it->second.shape() == tensor.shape() && it->second.dtype() == tensor.dtype() &&
                std::memcmp(it->second.contiguous().raw(), tensor.contiguous().raw(),
                            static_cast<size_t>(tensor.nbytes())) == 0,
            "checkpoint", files::quoted(file), ": ", name, " as it was written; found other bytes");
  }
}

std::string step_name(int64_t update) {
  const std::string digits = std::to_string(update);
  return "step-" + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits;
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  require(!error, "checkpoint", files::quoted(from), ": a folder that can be renamed; ", error.message());
}

}  // namespace

CheckpointStore::CheckpointStore(const fs::path& run_folder, Message message)
    : folder_(run_folder / "checkpoints"), message_(std::move(message)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  require(!error, "train", files::quoted(folder_), ": a folder that can be made; ", error.message());
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".writing-") || name.starts_with(".old-")) fs::remove_all(entry.path(), error);
  }
}

CheckpointStore CheckpointStore::of_other_process(const fs::path& run_folder) {
  CheckpointStore store;
  store.folder_ = run_folder / "checkpoints";
  return store;
}

fs::path CheckpointStore::path_of(int64_t update) const { return folder_ / step_name(update); }

std::vector<int64_t> CheckpointStore::updates() const {
  std::vector<int64_t> updates;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("step-") || !entry.is_directory()) continue;
    int64_t update = 0;
    const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), update);
    if (error == std::errc() && end == name.data() + name.size()) updates.push_back(update);
  }
  std::ranges::sort(updates);
  return updates;
}

LoadedCheckpoint CheckpointStore::load(int64_t update) const {
  LoadedCheckpoint loaded;
  loaded.folder = path_of(update);
  ParsedState parsed = parse_state(loaded.folder / "state.json");
  check_files(loaded.folder, parsed.files);
  loaded.state = std::move(parsed.state);
  require(loaded.state.update == update, "checkpoint", files::quoted(loaded.folder), ": the state of update ", update,
          "; found that of ", loaded.state.update);
  loaded.model = read_whole_model(loaded.folder);
  loaded.optimizer = io::read_safetensors(loaded.folder / "optimizer.safetensors").tensors;
  return loaded;
}

std::optional<LoadedCheckpoint> CheckpointStore::load_newest() {
  auto all = updates();
  for (; !all.empty(); all.pop_back()) {
    try {
      return load(all.back());
    } catch (const Error& error) {
      const fs::path folder = path_of(all.back());
      fs::path aside = folder_ / ("damaged-" + folder.filename().string().substr(5));
      for (int n = 2; fs::exists(aside); ++n) {
        aside = folder_ / ("damaged-" + folder.filename().string().substr(5) + "-" + std::to_string(n));
      }
      rename_folder(folder, aside);
      message_("the newest checkpoint is damaged and set aside as " + aside.string() + ": " + error.what());
    }
  }
  return std::nullopt;
}

io::Tensors CheckpointStore::load_model(int64_t update) const {
  const fs::path folder = path_of(update);
  check_files(folder, parse_state(folder / "state.json").files);
  return read_whole_model(folder);
}

void CheckpointStore::save(const TrainingState& state, const std::string& config, const io::Tensors& model,
                           const io::Tensors& optimizer, const std::string& format) {
  const fs::path final_path = path_of(state.update);
  const fs::path writing = folder_ / (".writing-" + final_path.filename().string());
  std::error_code ignored;
  try {
    fs::remove_all(writing, ignored);
    std::error_code error;
    fs::create_directory(writing, error);
    require(!error, "checkpoint", files::quoted(writing), ": a folder that can be made; ", error.message());
    files::write_atomically(writing / "config.json", config, "checkpoint");
    const auto [encoder, dense] = parts_of_model(model);
    io::write_safetensors(writing / "model.safetensors", encoder,
                          {{"format", format}, {models::kChecksumKey, models::checksum(encoder)}});
    if (!dense.empty()) io::write_safetensors(writing / kDenseFile, dense);
    io::write_safetensors(writing / "optimizer.safetensors", optimizer);
    files::write_atomically(writing / "state.json", state_text(state, writing), "checkpoint");
    check_written(writing / "model.safetensors", encoder);
    if (!dense.empty()) check_written(writing / kDenseFile, dense);
    check_written(writing / "optimizer.safetensors", optimizer);
    check_files(writing, parse_state(writing / "state.json").files);
    files::sync_folder(writing, "checkpoint");
    if (fs::exists(final_path)) remove(state.update);
    rename_folder(writing, final_path);
    files::sync_folder(folder_, "checkpoint");
  } catch (...) {
    fs::remove_all(writing, ignored);
    throw;
  }
}

void CheckpointStore::remove(int64_t update) const {
  // The folder is renamed first. Otherwise a removal that is interrupted would look like a damaged checkpoint.
  const fs::path old = folder_ / (".old-" + step_name(update));
  std::error_code ignored;
  fs::remove_all(old, ignored);
  rename_folder(path_of(update), old);
  fs::remove_all(old, ignored);
}

std::vector<fs::path> CheckpointStore::last_scheduled(int64_t n) const {
  std::vector<fs::path> found;
  const auto all = updates();
  for (auto it = all.rbegin(); it != all.rend() && static_cast<int64_t>(found.size()) < n; ++it) {
    if (parse_state(path_of(*it) / "state.json").state.scheduled) found.push_back(path_of(*it));
  }
  std::ranges::reverse(found);
  return found;
}

void CheckpointStore::rotate(int64_t keep_last, int64_t best_update) {
  const auto all = updates();
  if (all.empty()) return;
  int64_t kept = 0;
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    bool scheduled = false;
    try {
      scheduled = parse_state(path_of(*it) / "state.json").state.scheduled;
    } catch (const Error& error) {
      message_(error.what());  // it cannot be loaded, so it does not count
    }
    const bool keep = *it == all.back() || *it == best_update || (scheduled && kept < keep_last);
    if (scheduled) ++kept;
    if (!keep) remove(*it);
  }
}

FolderLock::FolderLock(const fs::path& folder) {
  const fs::path file = folder / ".lock";
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  require(descriptor_ >= 0, "train", files::quoted(file), ": a file that can be made; ",
          std::generic_category().message(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    ::close(descriptor_);
    fail("train", files::quoted(folder), ": a folder that no other process trains in; ",
         error == EWOULDBLOCK ? "found one at work" : std::generic_category().message(error));
  }
}

void FolderLock::write(const std::string& text) const {
  const bool written = ::ftruncate(descriptor_, 0) == 0 &&
                       ::pwrite(descriptor_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(descriptor_) == 0;
  require(written, "train", "a lock file that can be written; ", std::generic_category().message(errno));
}

FolderLock::~FolderLock() { ::close(descriptor_); }

void require_space(const fs::path& folder, int64_t count, int64_t bytes_each) {
  const int64_t bytes = count * bytes_each;
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) return;  // this file system does not say how much is free
  constexpr double kMegabyte = 1e6;
  require(space.available >= static_cast<uintmax_t>(bytes), "train", files::quoted(folder), ": ",
          std::ceil(static_cast<double>(bytes) / kMegabyte), " MB for ", count, " checkpoints; ",
          std::floor(static_cast<double>(space.available) / kMegabyte), " MB are free");
}

}  // namespace heed::train
