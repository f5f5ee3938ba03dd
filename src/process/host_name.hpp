#pragma once

#include <string>

namespace sluice {

/// Name of this machine.
[[nodiscard]] std::string host_name();

}  // namespace sluice
