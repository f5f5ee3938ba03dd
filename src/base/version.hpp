// Version and git revision of this build.
#pragma once

#include <string_view>

namespace sluice {

/// "0.1.0"
[[nodiscard]] std::string_view version();

/// Commit the build tree was configured at, "unknown" outside a git checkout.
[[nodiscard]] std::string_view git_revision();

}  // namespace sluice
