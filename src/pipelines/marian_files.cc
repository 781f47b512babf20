#include "pipelines/marian_files.h"

#include <set>
#include <string_view>

#include "formats/json.h"
#include "heed/error.h"
#include "heed/io.h"

namespace heed::pipelines {
namespace {

// {"piece": id, ...}
std::string vocabulary_json(const std::vector<std::string>& tokens, const std::filesystem::path& folder) {
  io::Json object = io::Json::object();
  auto& members = object.get_ref<io::Json::object_t&>();  // by its own way in, each token is compared with all others
  std::set<std::string_view> known;
  for (const std::string& token : tokens) {
    require(known.insert(token).second, "save", folder.string(), ": each token once; found \"", token, "\" twice");
    members.push_back({token, members.size()});
  }
  return io::json_text(object) + "\n";
}

}  // namespace

void write_marian_files(const MarianFiles& files, const std::filesystem::path& folder) {
  io::Json settings = io::Json::object();
  settings["tokenizer_class"] = "MarianTokenizer";
  io::write_file_atomically(folder / "vocab.json", vocabulary_json(files.source, folder));
  if (!files.target.empty()) {
    io::write_file_atomically(folder / "target_vocab.json", vocabulary_json(files.target, folder));
    settings["separate_vocabs"] = true;
  }
  settings["eos_token"] = files.end;
  settings["unk_token"] = files.unknown;
  settings["pad_token"] = files.padding;
  settings["model_max_length"] = files.longest;
  io::write_file_atomically(folder / "tokenizer_config.json", io::json_text(settings) + "\n");
}

}  // namespace heed::pipelines
