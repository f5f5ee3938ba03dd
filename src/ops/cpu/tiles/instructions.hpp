// Which instructions the user allows. Internal to src/ops.
#pragma once

#include <initializer_list>
#include <string_view>

namespace sluice::ops::cpu {

/// Whether ONEDNN_MAX_CPU_ISA (the variable that also limits oneDNN) is unset, or names instructions that
/// contain one of these names.
[[nodiscard]] bool user_allows(std::initializer_list<std::string_view> names);

}  // namespace sluice::ops::cpu
