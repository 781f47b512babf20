// config.json of a model folder.
#include "fuzz/target.h"
#include "heed/io.h"
#include "heed/models.h"

HEED_FUZZ_TARGET(
    config, .file = "config.json", .read = [](const Path& file) {
      (void)heed::models::config_from_json(heed::io::read_file(file, 1 << 20), file.string());
    })
