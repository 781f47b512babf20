#include "fuzz/target.h"
#include "heed/io.h"

HEED_FUZZ_TARGET(
    pytorch, .file = "pytorch_model.bin", .read = [](const Path& file) { (void)heed::io::read_pytorch(file); })
