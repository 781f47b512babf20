// state.json of a checkpoint: the input is what its checksum is of. The other three files are good.
#include "train/checkpoint.h"
#include "base/files.h"
#include "formats/json.h"
#include "fuzz/target.h"
#include "heed/io.h"

HEED_FUZZ_TARGET(
    checkpoint, .file = "checkpoints/step-00000001/state.json",
    .read =
        [](const Path& file) {
          const Path run = file.parent_path().parent_path().parent_path();
          (void)heed::train::CheckpointStore::of_other_process(run).load(1);
        },
    .prepare =
        [](const Path& folder) {
          const Path checkpoint = folder / "checkpoints/step-00000001";
          std::filesystem::create_directories(checkpoint);
          heed::io::write_file_atomically(checkpoint / "config.json", "{}");
          heed::io::write_safetensors(checkpoint / "model.safetensors", {{"a", heed::Tensor::zeros({2})}});
          heed::io::write_safetensors(checkpoint / "optimizer.safetensors", {});
        },
    .seal =
        [](std::string_view contents) {
          const heed::io::ParsedJson inner = heed::io::parse_json(contents);
          if (!inner.problem.empty()) return std::string(contents);
          const uint32_t sum = heed::files::crc32(heed::io::json_text(inner.value));
          return "{\"crc32\":" + std::to_string(sum) + ",\"state\":" + std::string(contents) + "}";
        },
    .named = "step-00000001")
