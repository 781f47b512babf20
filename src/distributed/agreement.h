// What ranks must have in common, compared before it can do harm.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "heed/distributed.h"

namespace heed::distributed {

// Throws Error on all ranks where `value`, which should be the same on all ranks of one `kind`, is not. The message
// says whose differs from that of most; with as many on one side as on the other, it names both.
void require_agreement(Communicator& ranks, const std::string& what, uint64_t value, int kind = 0);

// A hash of a text, to be compared.
[[nodiscard]] uint64_t hash_of(const std::string& text);

// Throws Error on all ranks where one of them does not see the folder that rank 0 sees. Rank 0 writes `mark` into a
// file of the folder before, and the others look for it for some seconds: file systems of a network take a while.
void require_one_folder(Communicator& ranks, const std::filesystem::path& file, const std::string& mark);

}  // namespace heed::distributed
