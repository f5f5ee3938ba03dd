// Collects what is wrong with a directory, so that its user repairs it once.
#pragma once

#include "base/error.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// Collects every problem of a checkpoint before one error tells them all.
class Problems {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    ++count_;
    if (count_ <= kShown) text_ += "\n  - " + fmt::format(text, std::forward<Args>(args)...);
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  /// Error(kBadData) with all of them, the first hundred in full, and with `cause` behind them.
  void throw_if_any(const std::string& directory, std::string_view cause = "") const {
    if (count_ == 0) return;
    const std::string more = count_ > kShown ? fmt::format("\n  and {} more", count_ - kShown) : "";
    fail(ExitCode::kBadData, "{}: the checkpoint cannot be loaded:{}{}{}{}", directory, text_, more,
         cause.empty() ? "" : "\n  ", cause);
  }

 private:
  static constexpr int kShown = 100;
  std::string text_;
  int count_ = 0;
};

}  // namespace sluice
