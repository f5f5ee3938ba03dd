// Faults that a test asks for, at the fault points of base/fault.hpp.
#pragma once

#include <string_view>

namespace sluice {

/// The faults that this process has from now on, passes counted from none; "" for none. `text` is a list
/// site:rank:nth:action[,...] as fault_injection.cpp describes it. Not to be called while other threads pass fault points.
void set_faults(std::string_view text);

}  // namespace sluice
