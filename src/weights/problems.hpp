// Collects the problems of a directory, so that its user can repair all of them at once.
#pragma once

#include "base/error.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// Collects every problem of a checkpoint, which one error then tells.
class Problems {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    ++count_;
    if (count_ <= kShown) text_ += "\n  - " + fmt::format(text, std::forward<Args>(args)...);
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  /// Throws Error(kBadData) with all problems, the first hundred in full, and with `cause` behind them, if
  /// there are any.
  void throw_if_any(const std::string& directory, std::string_view cause = "") const {
    if (count_ == 0) return;
    const std::string more = count_ > kShown ? fmt::format("\n  and {} more", count_ - kShown) : "";
    fail({ExitCode::kBadData, "weights.unreadable"}, "{}: the checkpoint cannot be loaded:{}{}{}{}",
         directory, text_, more, cause.empty() ? "" : "\n  ", cause);
  }

 private:
  static constexpr int kShown = 100;
  std::string text_;
  int count_ = 0;
};

}  // namespace sluice
