// The weights of a folder in Hugging Face's layout: one file, or shards and an index that says which tensor is in
// which. Everything that the index says is compared with what the shards have.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/files.h"
#include "formats/json.h"
#include "formats/weights.h"
#include "heed/error.h"
#include "heed/io.h"

namespace heed::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReadWeights = "read_weights";

// The two formats in which they come.
struct Format {
  const char* file;
  const char* index;
  const char* ending;  // of a shard
};
constexpr Format kSafetensors = {"model.safetensors", "model.safetensors.index.json", ".safetensors"};
constexpr Format kPytorch = {"pytorch_model.bin", "pytorch_model.bin.index.json", ".bin"};
thread_local bool pytorch_is_allowed = false;

constexpr int64_t kMaxIndex = 100'000'000;
constexpr size_t kMaxShards = 10'000;

// Weights that are not numbers of their own: what a name ends in where a tool has packed or scaled them.
struct PackedName {
  std::string_view ending;
  std::string_view what;
  std::optional<DType> only = std::nullopt;
};
constexpr std::array kPackedNames = {
    PackedName{".qweight", "quantised weights of GPTQ or AWQ"},
    PackedName{".qzeros", "quantised weights of GPTQ or AWQ"},
    PackedName{".SCB", "quantised weights of bitsandbytes (8 bits)"},
    PackedName{".absmax", "quantised weights of bitsandbytes (4 bits)"},
    PackedName{".quant_map", "quantised weights of bitsandbytes (4 bits)"},
    PackedName{".weight_packed", "quantised weights of compressed-tensors"},
    PackedName{".weight_scale", "quantised weights with scales beside them"},
    PackedName{".weight_scale_inv", "quantised weights with scales beside them"},
    PackedName{"_blocks", "quantised weights (MXFP4)", DType::u8},
    PackedName{".weight", "quantised weights (8-bit integers)", DType::i8},
    PackedName{".weight", "quantised weights (8-bit integers)", DType::u8},
    PackedName{".bitmask", "sparse weights of compressed-tensors"},
    PackedName{".compressed", "sparse weights of compressed-tensors"},
};

void refuse_packed(const Tensors& tensors, const fs::path& file) {
  for (const auto& [name, tensor] : tensors) {
    for (const PackedName& packed : kPackedNames) {
      if (!name.ends_with(packed.ending) || (packed.only && tensor.dtype() != *packed.only)) continue;
      fail(kReadWeights, files::quoted(file), ": dense weights in f32, f16 or bf16; found ", packed.what, ": tensor ",
           files::quoted(name), " (save the model without quantisation first)");
    }
  }
}

// A name that cannot lead out of the folder.
bool is_shard_name(std::string_view name, const Format& format) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return std::ranges::all_of(name, allowed) && !name.starts_with('.') && name.find("..") == std::string_view::npos &&
         name.ends_with(format.ending) && name.size() <= 255;
}

using Shards = std::map<std::string, std::set<std::string>>;  // shard, tensors

Shards read_index(const fs::path& file, const Format& format) {
  const auto check = [&](bool ok, const auto&... what) {
    heed::require(ok, kReadWeights, files::quoted(file), ": ", what...);
  };
  const ParsedJson parsed = parse_json(files::read_all(file, kMaxIndex, kReadWeights));
  check(parsed.problem.empty(), parsed.problem);
  const Json& index = parsed.value;
  check(index.is_object() && index.contains("weight_map") && index["weight_map"].is_object(),
        "a JSON object with the key \"weight_map\", a table of names; found none");
  if (index.contains("metadata")) {
    const Json& metadata = index["metadata"];
    check(metadata.is_object(), "key \"metadata\": a table; found ", metadata.type_name());
    // Nothing is allocated from it, and tools that convert models leave the size of what they began with.
    const Json size = metadata.value("total_size", Json(0));
    check(size.is_number() && size.get<double>() >= 0, "key \"total_size\": a number of bytes; found ",
          json_ascii(size).substr(0, 60));
  }
  Shards shards;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    check(shard.is_string(), "for tensor ", files::quoted(name), " the name of a file; found ", shard.type_name());
    const auto& text = shard.get_ref<const std::string&>();
    check(is_shard_name(text, format), "for tensor ", files::quoted(name), " the name of a ", format.ending,
          " file of this folder (letters, digits, \".\", \"_\", \"-\"); found ", files::quoted(text.substr(0, 100)));
    shards[text].insert(name);
    check(shards.size() <= kMaxShards, "at most ", kMaxShards, " files; found more");
  }
  check(!shards.empty(), "at least one tensor in \"weight_map\"; found none");
  return shards;
}

SafetensorsFile read_one(const fs::path& file, const Format& format) {
  SafetensorsFile result =
      &format == &kPytorch ? SafetensorsFile{.tensors = read_pytorch(file), .metadata = {}} : read_safetensors(file);
  refuse_packed(result.tensors, file);
  return result;
}

SafetensorsFile read_shards(const fs::path& folder, const Format& format) {
  const fs::path index = folder / format.index;
  SafetensorsFile all;
  bool first = true;
  for (const auto& [shard, names] : read_index(index, format)) {
    const fs::path file = folder / shard;
    std::error_code ignored;
    require(fs::exists(file, ignored), kReadWeights, files::quoted(index), ": the file ", files::quoted(shard),
            " beside it; found none (is the download complete?)");
    SafetensorsFile found = read_one(file, format);
    for (const auto& [name, tensor] : found.tensors) {
      require(names.contains(name), kReadWeights, files::quoted(file), ": only tensors that ", format.index,
              " says are in it; found ", files::quoted(name));
    }
    for (const std::string& name : names) {
      require(found.tensors.contains(name), kReadWeights, files::quoted(file), ": tensor ", files::quoted(name),
              ", which ", format.index, " says is in it; found none of that name");
    }
    all.tensors.merge(found.tensors);
    if (first) all.metadata = found.metadata;
    std::erase_if(all.metadata, [&](const auto& entry) {
      const auto here = found.metadata.find(entry.first);
      return here == found.metadata.end() || here->second != entry.second;
    });
    first = false;
  }
  return all;
}

bool exists(const fs::path& folder, const char* name) {
  std::error_code ignored;
  return fs::exists(folder / name, ignored);
}

[[noreturn]] void refuse_folder(const fs::path& folder) {
  std::error_code ignored;
  require(fs::is_directory(folder, ignored), kReadWeights, files::quoted(folder), ": a folder with weights; found ",
          fs::exists(folder, ignored) ? "a file" : "nothing");
  fail(kReadWeights, files::quoted(folder), ": weights in ", kSafetensors.file, ", or in shards with ",
       kSafetensors.index, "; found neither");
}

}  // namespace

std::vector<fs::path> safetensors_shards(const fs::path& folder) {
  if (!exists(folder, kSafetensors.index)) return {};
  std::vector<fs::path> names = {kSafetensors.index};
  try {
    for (const auto& [shard, tensors] : read_index(folder / kSafetensors.index, kSafetensors))
      names.emplace_back(shard);
  } catch (const Error&) {
    return {};
  }
  return names;
}

PytorchAllowed::PytorchAllowed() : before_(std::exchange(pytorch_is_allowed, true)) {}
PytorchAllowed::~PytorchAllowed() { pytorch_is_allowed = before_; }

SafetensorsFile read_weights(const fs::path& folder) {
  for (const Format* format : {&kSafetensors, &kPytorch}) {
    const bool one = exists(folder, format->file), shards = !one && exists(folder, format->index);
    if (!one && !shards) continue;
    require(format != &kPytorch || pytorch_is_allowed, kReadWeights, files::quoted(folder), ": weights in ",
            kSafetensors.file, "; found ", one ? kPytorch.file : kPytorch.index,
            ", PyTorch's older format. This writes them anew: heed convert MODEL NEW_FOLDER (in Python: "
            "heed.convert(MODEL, NEW_FOLDER))");
    return one ? read_one(folder / format->file, *format) : read_shards(folder, *format);
  }
  refuse_folder(folder);
}

}  // namespace heed::io
