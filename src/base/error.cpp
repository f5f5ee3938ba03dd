#include "base/error.hpp"

#include <cstring>

namespace sluice {

namespace detail {
void invariant_failed(const char* condition, const char* file, int line, const std::string& text) {
  throw Error(ExitCode::kInternal,
              fmt::format("{}:{}: invariant '{}' broken: {}", file, line, condition, text));
}
}  // namespace detail

std::string errno_text(int error_number) {
  return fmt::format("{} (errno {})", std::strerror(error_number), error_number);
}

}  // namespace sluice
