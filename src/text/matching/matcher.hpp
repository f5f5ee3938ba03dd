// Matcher of the next piece of a text: a published pattern written out as code, or any other by pcre2.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::text {

/// Places at which a text can be cut in two without changing its pieces.
enum class Cuts {
  kNowhere,
  /// Cuts after '\n' between a non-blank and a letter or number, and before ' ' between letters.
  kSingleLineBreaks,
  kLineBreaks,  ///< cuts as kSingleLineBreaks, and after several '\r' and '\n'
};

/// Matcher for a tokenizer's pattern. Const calls are thread-safe.
class Matcher {
 public:
  virtual ~Matcher() = default;

  /// First match that begins at or after `from`, as [begin, end); begin == end == text.size(): none. `text`
  /// is well-formed UTF-8. A match is never empty except at the end.
  [[nodiscard]] virtual std::pair<std::size_t, std::size_t> find(std::string_view text,
                                                                 std::size_t from) const = 0;

  /// Places at which any text may be cut.
  [[nodiscard]] virtual Cuts cuts() const = 0;
};

/// Pattern by which ByteLevel splits (GPT-2's).
extern const std::string_view kByteLevelPattern;

/// Matcher in code for a published pattern: GPT-2, Llama 3, Qwen2 and Qwen3, Qwen3.5; null for any other.
[[nodiscard]] std::unique_ptr<Matcher> published_matcher(std::string_view pattern);

/// Matcher for any pattern, written for Oniguruma as tokenizer.json has it. Error(kBadData), calling it
/// `name`, for an invalid pattern, and for one that means something else to pcre2.
[[nodiscard]] std::unique_ptr<Matcher> pcre2_matcher(std::string_view pattern, const std::string& name);

}  // namespace sluice::text
