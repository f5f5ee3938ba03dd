#include "text/matching/literal_matcher.hpp"

#include "text/unicode/unicode.hpp"

#include <utility>

namespace sluice::text {
namespace {

class LiteralMatcher : public Matcher {
 public:
  explicit LiteralMatcher(std::string text) : text_(std::move(text)) {}

  [[nodiscard]] std::pair<std::size_t, std::size_t> find(std::string_view text,
                                                         std::size_t from) const override {
    const std::size_t found = text.find(text_, from);
    if (found == std::string_view::npos) return {text.size(), text.size()};
    return {found, found + text_.size()};
  }
  [[nodiscard]] Cuts cuts() const override { return Cuts::kNowhere; }

 private:
  std::string text_;
};

class DigitMatcher : public Matcher {
 public:
  [[nodiscard]] std::pair<std::size_t, std::size_t> find(std::string_view text,
                                                         std::size_t from) const override {
    while (from < text.size()) {
      const Character character = character_at(text, from);
      if (has(character.code, kNumber)) return {from, from + character.bytes};
      from += character.bytes;
    }
    return {from, from};
  }
  [[nodiscard]] Cuts cuts() const override { return Cuts::kNowhere; }
};

}  // namespace

std::shared_ptr<const Matcher> literal_matcher(std::string text) {
  return std::make_shared<LiteralMatcher>(std::move(text));
}

std::shared_ptr<const Matcher> digit_matcher() { return std::make_shared<DigitMatcher>(); }

}  // namespace sluice::text
