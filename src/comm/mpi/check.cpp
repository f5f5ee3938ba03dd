#include "comm/mpi/check.hpp"

#include "base/error.hpp"
#include "base/log.hpp"

#include <mpi.h>

#include <array>
#include <exception>
#include <string>
#include <thread>

namespace sluice {
namespace {

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return fmt::format("error {}", code);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace

void require_mpi_thread(std::string_view call) {
  static const std::thread::id first = std::this_thread::get_id();
  SLUICE_ASSERT(std::this_thread::get_id() == first,
                "{} was called on another thread than the one that started MPI", call);
}

void check_mpi(int code, std::string_view call) {
  require_mpi_thread(call);
  if (code != MPI_SUCCESS)
    fail({ExitCode::kInternal, "comm.failed_call"}, "{} failed: {}", call, error_text(code));
}

void log_mpi(int code, std::string_view call) noexcept {
  try {
    check_mpi(code, call);
  } catch (const std::exception& e) {
    log::warning("{}", e.what());
  }
}

}  // namespace sluice
