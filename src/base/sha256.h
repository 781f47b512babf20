// SHA-256 (FIPS 180-4), for the hashes by which a page allows its own script and style.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace heed {

[[nodiscard]] std::array<uint8_t, 32> sha256(std::string_view bytes);
[[nodiscard]] std::string base64(std::string_view bytes);  // RFC 4648, with padding
// "sha256-" and the hash in base64, as Content-Security-Policy writes it.
[[nodiscard]] std::string sha256_source(std::string_view bytes);

}  // namespace heed
