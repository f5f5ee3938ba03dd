#include "base/error.hpp"

namespace sluice::ops::device {

[[noreturn]] void fail_launch(const char* reason);

void fail_launch(const char* reason) {
  fail(ExitCode::kInternal, "a kernel could not be started: {}", reason);
}

}  // namespace sluice::ops::device
