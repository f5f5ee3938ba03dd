// Fault injection for tests: SLUICE_FAULT=site:rank:nth:action makes the nth pass of that rank, or of every
// rank (*), through that site fail; an nth of "3+" means the third and all later ones. Compiled to nothing
// without SLUICE_FAULTS.
#pragma once

#include <string_view>

namespace sluice {

/// Actions: throw (Error, kInternal), io (Error, kIo), exit0 (leave at once with 0), kill (SIGKILL), stop
/// (SIGSTOP), delay (2 s).
#ifdef SLUICE_FAULTS
void fault_point(std::string_view site, int rank);
#else
inline void fault_point(std::string_view, int) {}
#endif

}  // namespace sluice
