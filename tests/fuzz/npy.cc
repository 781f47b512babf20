#include "fuzz/target.h"
#include "heed/io.h"

HEED_FUZZ_TARGET(
    npy, .file = "array.npy", .read = [](const Path& file) { (void)heed::io::read_npy(file); })
