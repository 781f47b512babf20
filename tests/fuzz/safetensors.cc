#include "fuzz/target.h"
#include "heed/io.h"

HEED_FUZZ_TARGET(
    safetensors, .file = "model.safetensors",
    .read = [](const Path& file) { (void)heed::io::read_weights(file.parent_path()); })
