// A regular expression for short names, as configurations written by Python programs have it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace sluice::text {

/// A regular expression that names are matched against.
class NameExpression {
 public:
  /// A regular expression in Python's spelling, which is pcre2's. Error(kBadData), calling it `name`, if it
  /// is invalid.
  NameExpression(std::string_view expression, std::string name);
  NameExpression(NameExpression&&) noexcept;
  NameExpression& operator=(NameExpression&&) noexcept;
  ~NameExpression();

  /// Whether it matches all of `text`. Error(kBadData) if that takes more steps than a name deserves.
  [[nodiscard]] bool matches(std::string_view text) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
  std::string name_;
};

}  // namespace sluice::text
