#include "job/failure.hpp"

#include "base/bytes.hpp"
#include "base/memory.hpp"

#include <exception>
#include <filesystem>
#include <new>

namespace sluice {

Failure current_failure() {
  try {
    throw;
  } catch (const Error& e) {
    return {e.code(), e.what()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::kTooLittle,
            fmt::format("out of memory: an allocation was refused; the machine has {} available, and a "
                        "limit on the process (load.memory_limit, ulimit) may be lower",
                        format_bytes(available_memory_bytes()))};
  } catch (const std::filesystem::filesystem_error& e) {
    return {ExitCode::kIo, e.what()};
  } catch (const std::exception& e) {
    return {ExitCode::kInternal, e.what()};
  } catch (...) {
    return {ExitCode::kInternal, "an exception of unknown type"};
  }
}

}  // namespace sluice
