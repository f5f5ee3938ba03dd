// Places where a test makes the program fail. The programs that users run have no hook, so nothing happens
// there; tests run programs of the same objects and one more, which sets it
// (tests/support/fault_injection.cpp).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace sluice {

using FaultHook = void (*)(std::string_view site, int rank, std::span<std::byte> data);

/// Hook that fault points call; set before main by the test that links it in, else null.
inline FaultHook fault_hook = nullptr;

/// `rank` passes through `site`; throws or ends the process if the hook does. `data`: what the hook may spoil
/// there.
inline void fault_point(std::string_view site, int rank, std::span<std::byte> data = {}) {
  if (fault_hook != nullptr) fault_hook(site, rank, data);
}

}  // namespace sluice
