#include "fuzz/target.h"
#include "heed/io.h"

HEED_FUZZ_TARGET(
    npz, .file = "arrays.npz", .read = [](const Path& file) { (void)heed::io::read_npz(file); })
