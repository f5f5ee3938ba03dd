// The one error type. Its code is the process's exit status, and its id names the kind of cause, so that scripts
// and schedulers can tell causes apart whatever the words are.
#pragma once

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
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

/// Name of a kind of cause, "config.unknown_key": a folder or subject, and what is wrong. The guide has a table
/// of all (configs/guide/messages.md). At most 39 characters; longer ones are cut.
class FailureId {
 public:
  constexpr FailureId() = default;
  FailureId(std::string_view text) noexcept;
  FailureId(const char* text) noexcept : FailureId(std::string_view(text)) {}

  /// Id of failures that have none of their own: "weights.other" for src/weights/weight_map.cpp.
  [[nodiscard]] static FailureId other(std::string_view source_file);

  [[nodiscard]] std::string_view text() const { return text_.data(); }
  friend bool operator==(const FailureId&, const FailureId&) = default;

 private:
  std::array<char, 40> text_{};  ///< the text and zeros; a plain value, so that copying an Error cannot throw
};

/// What a failure is to scripts: an exit code and an id. An exit code alone gets the id `other()` of the source
/// file that names it, and kDone none.
struct Cause {
  ExitCode code = ExitCode::kDone;
  FailureId id{};

  Cause() = default;
  Cause(ExitCode exit_code, FailureId name = FailureId::other(__builtin_FILE()))
      : code(exit_code), id(exit_code == ExitCode::kDone ? FailureId() : name) {}
};

/// A text with an id at the end of its first line: "job.toml:3:1: ... [config.unknown_key]".
[[nodiscard]] std::string with_id(std::string text, const FailureId& id);

/// Error that is thrown for every failure. The text names the object (file, key, tensor, rank), what was
/// found, what was expected, and if it helps a likely cause.
class Error : public std::runtime_error {
 public:
  Error(Cause cause, const std::string& text) : std::runtime_error(text), cause_(cause) {}
  [[nodiscard]] ExitCode code() const { return cause_.code; }
  [[nodiscard]] const Cause& cause() const { return cause_; }

 private:
  Cause cause_;
};

/// Throws an Error with this cause, or exit code, and the formatted text.
template <class... Args>
[[noreturn]] void fail(Cause cause, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(cause, fmt::format(text, std::forward<Args>(args)...));
}

namespace detail {
[[noreturn]] void invariant_failed(const char* condition, const char* file, int line,
                                   const std::string& text);
}

/// Text of an errno value: "No such file or directory (errno 2)".
std::string errno_text(int error_number);

/// Cause of a failed write or other change of a file system: "io.no_space" if errno says that the disk is full
/// or a quota used up, else "io.write".
Cause write_failure(int error_number);

}  // namespace sluice

/// Checks an invariant of our own code, never input: throws Error(kInternal) if it is broken. Always compiled
/// in; the message is formatted only on failure.
#define SLUICE_ASSERT(condition, ...) \
  (static_cast<bool>(condition)       \
       ? void(0)                      \
       : ::sluice::detail::invariant_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)))
