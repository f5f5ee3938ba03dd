// What finds the next piece of a text: a published pattern written out as code, or any other by pcre2.
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
  kSingleLineBreaks,  ///< behind a '\n' between a character that is no blank and a letter or number; before a ' ' between letters
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

  /// Where a text may be cut, whatever else it holds.
  [[nodiscard]] virtual Cuts cuts() const = 0;
};

/// The pattern that ByteLevel splits by (GPT-2's).
extern const std::string_view kByteLevelPattern;

/// A matcher written out for one of the published patterns: GPT-2, Llama 3, Qwen2 and Qwen3, Qwen3.5; null for any other.
[[nodiscard]] std::unique_ptr<Matcher> published_matcher(std::string_view pattern);

/// The same for any pattern, written for Oniguruma as tokenizer.json has it. Error(kBadData), calling it `name`, for
/// what is no pattern, and for what means something else to pcre2.
[[nodiscard]] std::unique_ptr<Matcher> pcre2_matcher(std::string_view pattern, const std::string& name);

}  // namespace sluice::text
