#include "fuzz/target.h"
#include "heed/train.h"

HEED_FUZZ_TARGET(
    recipe_toml, .file = "recipe.toml", .read = [](const Path& file) { (void)heed::train::read_recipe(file); })
