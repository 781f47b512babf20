// The languages that a model's tokenizer knows where its folder does not list them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace heed::text::huggingface {

// In the order of their ids. Fan et al. 2020 (M2M100: "af", "zu"), Tang et al. 2020 (mBART-50: "ar_AR", "sl_SI"), Liu
// et al. 2020 (mBART's first models: its first 25).
[[nodiscard]] std::span<const std::string_view> languages_of_m2m100();
[[nodiscard]] std::span<const std::string_view> languages_of_mbart50();
[[nodiscard]] std::span<const std::string_view> languages_of_mbart();

}  // namespace heed::text::huggingface
