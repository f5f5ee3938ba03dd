// Regular expressions for names, as in configurations written by Python programs.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace sluice::text {

/// A regular expression for names.
class NameExpression {
 public:
  /// Compiles an expression in Python's spelling, which is pcre2's. Error(kBadData), with `name`, if it is
  /// invalid.
  NameExpression(std::string_view expression, std::string name);
  NameExpression(NameExpression&&) noexcept;
  NameExpression& operator=(NameExpression&&) noexcept;
  ~NameExpression();

  /// Whether it matches all of `text`. Error(kBadData) if that takes too many steps.
  [[nodiscard]] bool matches(std::string_view text) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
  std::string name_;
};

}  // namespace sluice::text
