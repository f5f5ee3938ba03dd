#include "base/error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sluice {

FailureId::FailureId(std::string_view text) noexcept {
  std::ranges::copy(text.substr(0, text_.size() - 1), text_.begin());
}

FailureId FailureId::other(std::string_view source_file) {
  constexpr std::string_view kSources = "src/";
  const std::size_t at = source_file.rfind(kSources);
  if (at != std::string_view::npos) source_file.remove_prefix(at + kSources.size());
  return FailureId(fmt::format("{}.other", source_file.substr(0, source_file.find('/'))));
}

std::string with_id(std::string text, const FailureId& id) {
  text.insert(std::min(text.find('\n'), text.size()), fmt::format(" [{}]", id.text()));
  return text;
}

namespace detail {
void invariant_failed(const char* condition, const char* file, int line, const std::string& text) {
  throw Error({ExitCode::kInternal, "base.invariant"},
              fmt::format("{}:{}: invariant '{}' broken: {}", file, line, condition, text));
}
}  // namespace detail

std::string errno_text(int error_number) {
  return fmt::format("{} (errno {})", std::strerror(error_number), error_number);
}

Cause write_failure(int error_number) {
  const bool is_full = error_number == ENOSPC || error_number == EDQUOT;
  return {ExitCode::kIo, is_full ? "io.no_space" : "io.write"};
}

}  // namespace sluice
