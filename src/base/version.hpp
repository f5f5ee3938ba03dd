// Version and git revision of this build.
#pragma once

#include <string_view>

namespace sluice {

/// Version of the program, "0.1.0".
[[nodiscard]] std::string_view version();

/// Commit at which the build tree was configured; "unknown" outside of a git checkout.
[[nodiscard]] std::string_view git_revision();

}  // namespace sluice
