// What the leak check under AddressSanitizer does not look at, and when it looks. Nothing without a
// sanitizer.
#pragma once

#include "support/sanitizer.hpp"

#ifdef SLUICE_ADDRESS_SANITIZER
#include <sanitizer/lsan_interface.h>
#endif

namespace sluice::test {

#ifdef SLUICE_ADDRESS_SANITIZER
/// Memory that this thread takes while one of these lives is never called lost.
using NoLeakCheck = __lsan::ScopedDisabler;

/// Looks now, and not again at the end of the process; ends it if memory was lost.
inline void check_for_leaks() { __lsan_do_leak_check(); }
#else
struct NoLeakCheck {
  NoLeakCheck() {}  // so that one that is never used is no unused variable
};
inline void check_for_leaks() {}
#endif

}  // namespace sluice::test
