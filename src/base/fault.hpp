// Fault points: places where a test makes the program fail. Programs that users run have no hook, so nothing
// happens there; tests run programs of the same objects plus one that sets the hook
// (tests/support/fault_injection.cpp).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace sluice {

using FaultHook = void (*)(std::string_view site, int rank, std::span<std::byte> data);

/// Hook that fault points call; set before main by the test that links it in, else null.
inline FaultHook fault_hook = nullptr;

/// Marks that `rank` passes `site`; throws or ends the process if the hook does. `data`: bytes that the hook
/// may spoil.
inline void fault_point(std::string_view site, int rank, std::span<std::byte> data = {}) {
  if (fault_hook != nullptr) fault_hook(site, rank, data);
}

}  // namespace sluice
