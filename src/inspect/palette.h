// The colours of weights: the same colour is the same weight in every picture. The page's are in page/page.css.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace heed::inspect {

struct Rgb {
  uint8_t red = 0, green = 0, blue = 0;
};

// The light theme's seven colours from weight 0 to 1.
inline constexpr std::array<Rgb, 7> kRamp = {{{0xf1, 0xf5, 0xf5},
                                              {0xd2, 0xe7, 0xe5},
                                              {0x9c, 0xcf, 0xcb},
                                              {0x57, 0xad, 0xac},
                                              {0x27, 0x86, 0x8e},
                                              {0x12, 0x5c, 0x6e},
                                              {0x0a, 0x33, 0x4d}}};

// Along the ramp by the root of the weight, so that small weights can be told apart; red for a NaN.
[[nodiscard]] Rgb colour_of(float weight);
[[nodiscard]] std::string to_string(Rgb colour);  // "#57adac"

}  // namespace heed::inspect
