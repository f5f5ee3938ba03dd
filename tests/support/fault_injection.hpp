// Faults that a test asks for, at the fault points of base/fault.hpp.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// Makes this process fail as `text` says from now on, passes counted from none: site:rank:nth:action[,...]
/// as fault_injection.cpp describes it, "" for no fault. `run`: the run directory that the action "copy"
/// copies. Not to be called while other threads pass fault points.
void set_faults(std::string_view text, const std::string& run);

}  // namespace sluice
