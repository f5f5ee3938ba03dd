#include "corpus/source/value_scanner.hpp"

namespace sluice::corpus {

std::size_t ValueScanner::find_end(std::string_view text) {
  for (; at_ < text.size(); ++at_) {
    const char character = text[at_];
    if (is_in_text_) {
      if (character == '\\') {
        if (at_ + 1 == text.size()) return std::string_view::npos;  // what is escaped is not here yet
        ++at_;
      } else if (character == '"') {
        is_in_text_ = false;
        if (depth_ == 0) return at_ + 1;
      }
    } else if (character == '"') {
      if (depth_ == 0 && at_ > 0) return at_;
      is_in_text_ = true;
    } else if (character == '{' || character == '[') {
      if (depth_ == 0 && at_ > 0) return at_;
      ++depth_;
    } else if (depth_ > 0) {
      if ((character == '}' || character == ']') && --depth_ == 0) return at_ + 1;
    } else if (at_ > 0 && std::string_view(" \t\r\n,]}").find(character) != std::string_view::npos) {
      return at_;
    }
  }
  return std::string_view::npos;
}

}  // namespace sluice::corpus
