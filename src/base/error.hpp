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
  kUsage = 64,      ///< fault of the command line
  kBadData = 65,    ///< fault of a model directory or data file
  kInternal = 70,   ///< a broken invariant, or ranks that disagree
  kTooLittle = 71,  ///< too little memory or other resources on the machine
  kIo = 74,         ///< failed read or write
  kResumable = 75,  ///< state was saved; run again to go on
  kNumerics = 76,   ///< NaN or infinity in loss, gradients or weights
  kBadConfig = 78,  ///< fault of the job file
};

/// Error that is thrown for every failure. The text names the object (file, key, tensor, rank), what was
/// found, what was expected, and if it helps a likely cause.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Throws an Error with this exit code and the formatted text.
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

/// Checks an invariant of our own code, never input: throws Error(kInternal) if it is broken. Always compiled
/// in; the message is formatted only on failure.
#define SLUICE_ASSERT(condition, ...) \
  (static_cast<bool>(condition)       \
       ? void(0)                      \
       : ::sluice::detail::invariant_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)))
