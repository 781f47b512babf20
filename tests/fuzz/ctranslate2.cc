#include "fuzz/target.h"
#include "heed/io.h"

HEED_FUZZ_TARGET(
    ctranslate2, .file = "model.bin", .read = [](const Path& file) { (void)heed::io::read_ctranslate2(file); })
