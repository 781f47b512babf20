// Lines of text, plain or gzip.
#include "fuzz/target.h"
#include "heed/text.h"

HEED_FUZZ_TARGET(
    lines, .file = "text.txt", .read = [](const Path& file) { (void)heed::text::read_lines(file); })
