// The index of a model in shards; the two shards beside it are good.
#include "fuzz/target.h"
#include "heed/io.h"

HEED_FUZZ_TARGET(
    shard_index, .file = "model.safetensors.index.json",
    .read = [](const Path& file) { (void)heed::io::read_weights(file.parent_path()); },
    .prepare =
        [](const Path& folder) {
          using heed::Tensor;
          heed::io::write_safetensors(folder / "model-00001-of-00002.safetensors",
                                      {{"a", Tensor::zeros({2})}, {"b", Tensor::zeros({3})}});
          heed::io::write_safetensors(folder / "model-00002-of-00002.safetensors", {{"c", Tensor::zeros({4})}});
        })
