// Scanner for the end of a JSON value in text that comes in parts.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::corpus {

/// Looks at brackets and quotes alone: what lies between them may be no JSON.
class ValueScanner {
 public:
  /// Bytes of the value at the front of `text` if it ends there, else npos. Called again with more of the
  /// same text it goes on where it was. A number or word ends before a blank, a comma or a closing bracket;
  /// it has at least one byte.
  [[nodiscard]] std::size_t find_end(std::string_view text);
  /// The next text is another one.
  void restart() { *this = ValueScanner(); }

 private:
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  bool is_in_text_ = false;
};

}  // namespace sluice::corpus
