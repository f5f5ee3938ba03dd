// The one error type. Its code is the process's exit status, so that scripts and schedulers can tell causes
// apart.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace sluice {

/// Exit statuses of the contract (sysexits where one fits).
enum class ExitCode : int {
  kDone = 0,
  kUsage = 64,      ///< the command line
  kBadData = 65,    ///< a model directory or data file
  kInternal = 70,   ///< a broken invariant, or ranks that disagree
  kTooLittle = 71,  ///< the machine has too little for the job: memory
  kIo = 74,         ///< the system refused a read or a write
  kResumable = 75,  ///< state was saved; run again to go on
  kNumerics = 76,   ///< NaN or infinity in loss or gradients
  kBadConfig = 78,  ///< the job file
};

/// Thrown for every failure. The text names what was looked at (file, key, tensor, rank), what was found,
/// what was expected, and where it helps a likely cause.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Throws Error(code, formatted text).
template <class... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

namespace detail {
[[noreturn]] void invariant_failed(const char* condition, const char* file, int line,
                                   const std::string& text);
}

/// Text of an errno value: "No such file or directory (errno 2)".
std::string errno_text(int error_number);

}  // namespace sluice

/// A broken invariant of our own, never a reaction to input: throws Error(kInternal). Always compiled in; the
/// message is formatted only on failure.
#define SLUICE_ASSERT(condition, ...) \
  (static_cast<bool>(condition)       \
       ? void(0)                      \
       : ::sluice::detail::invariant_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)))
