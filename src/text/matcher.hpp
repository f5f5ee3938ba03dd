// Matcher of the next piece of a text: a published pattern written out as code, or any other by pcre2.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::text {

/// Places at which a text has the same pieces whole and cut in two.
enum class Cuts {
  kNowhere,
  /// Splits after '\n' between a non-blank and a letter or number, and before ' ' between letters.
  kSingleLineBreaks,
  kLineBreaks,  ///< also behind several '\r' and '\n' there
};

/// A pattern of a tokenizer. Const calls are safe from several threads.
class Matcher {
 public:
  virtual ~Matcher() = default;

  /// The first match that begins at or after `from`, as [begin, end); begin == end == text.size(): none.
  /// `text` is well-formed UTF-8. A match is never empty but at the end.
  [[nodiscard]] virtual std::pair<std::size_t, std::size_t> find(std::string_view text,
                                                                 std::size_t from) const = 0;

  /// Places at which any text may be cut.
  [[nodiscard]] virtual Cuts cuts() const = 0;
};

/// The pattern that ByteLevel splits by (GPT-2's).
extern const std::string_view kByteLevelPattern;

/// A matcher written out for one of the published patterns: GPT-2, Llama 3, Qwen2 and Qwen3, Qwen3.5; null
/// for any other.
[[nodiscard]] std::unique_ptr<Matcher> published_matcher(std::string_view pattern);

/// Matcher for any pattern, written for Oniguruma as tokenizer.json has it. Error(kBadData), calling it
/// `name`, for an invalid pattern, and for one that means something else to pcre2.
[[nodiscard]] std::unique_ptr<Matcher> pcre2_matcher(std::string_view pattern, const std::string& name);

}  // namespace sluice::text
