// The weights of a folder, for those who replace them.
#pragma once

#include <filesystem>
#include <vector>

namespace heed::io {

// The names of the shards in this folder and of their index, which mean nothing beside a new model.safetensors. Empty
// where there is no index, or none that heed reads.
[[nodiscard]] std::vector<std::filesystem::path> safetensors_shards(const std::filesystem::path& folder);

}  // namespace heed::io
