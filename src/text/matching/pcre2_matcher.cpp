// Matcher that searches with pcre2.
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "text/matching/matcher.hpp"
#include "text/matching/pcre2_pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <atomic>
#include <memory>

namespace sluice::text {
namespace {

// Most steps of one search: a pattern of a hostile file may be exponential.
constexpr std::uint32_t kMatchLimit = 10'000'000;  // Oniguruma's limit
constexpr std::uint32_t kHeapLimit_kib = 256 * 1024;
constexpr std::size_t kJitStack_bytes = 4 << 20;
constexpr std::size_t kLongestPattern = 64 << 10;

template <auto release>
struct Release {
  template <class T>
  void operator()(T* handle) const {
    release(handle);
  }
};
using Code = std::unique_ptr<pcre2_code, Release<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Release<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Release<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Release<pcre2_jit_stack_free>>;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

/// Working memory of a thread that searches, shared by all patterns, which are used one after the other.
struct Room {
  Room()
      : data(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(32 << 10, kJitStack_bytes, nullptr)) {
    SLUICE_ASSERT(data && context, "no memory to search with");
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_heap_limit(context.get(), kHeapLimit_kib);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
  MatchData data;
  MatchContext context;
  JitStack stack;
};

Room& room() {
  thread_local Room own;
  return own;
}

class Pcre2Matcher : public Matcher {
 public:
  Pcre2Matcher(std::string_view pattern, const std::string& name) : name_(name) {
    if (pattern.size() > kLongestPattern)
      fail({ExitCode::kBadData, "text.tokenizer"}, "{}: a pattern of {} bytes; at most {} are read", name,
           pattern.size(), kLongestPattern);
    const std::string translated = pcre2_pattern(pattern, name);
    int error = 0;
    std::size_t offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                              PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
    if (!code_)
      fail({ExitCode::kBadData, "text.tokenizer"}, "{}: '{}' is not a valid pattern: {}", name,
           printable(pattern), message_of(error));
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // if compilation fails, the interpreter searches
  }

  [[nodiscard]] std::pair<std::size_t, std::size_t> find(std::string_view text,
                                                         std::size_t from) const override {
    const std::pair<std::size_t, std::size_t> none{text.size(), text.size()};
    while (from < text.size()) {
      const int found = search(text, from);
      if (found == PCRE2_ERROR_NOMATCH) return none;
      if (found < 0) {
        warn(found);
        return none;
      }
      const std::size_t* bounds = pcre2_get_ovector_pointer(room().data.get());
      if (bounds[1] > bounds[0]) return {bounds[0], bounds[1]};
      from = bounds[1] + 1;  // an empty match splits nothing
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80) ++from;
    }
    return none;
  }
  [[nodiscard]] Cuts cuts() const override { return Cuts::kNowhere; }

 private:
  /// Searches with the compiled code and, if that reaches a limit, with the interpreter, whose stack is
  /// larger.
  [[nodiscard]] int search(std::string_view text, std::size_t from) const {
    const auto run = [&](std::uint32_t options) {
      return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK | options, room().data.get(), room().context.get());
    };
    const int found = run(0);
    return found == PCRE2_ERROR_JIT_STACKLIMIT ? run(PCRE2_NO_JIT) : found;
  }

  /// Warns that the rest of the text becomes one piece.
  void warn(int error) const {
    if (!has_warned_.exchange(true))
      log::warning("{}: a text exceeds the limits of its pattern ({}); the rest of it becomes one piece",
                   name_, message_of(error));
  }

  std::string name_;
  Code code_;
  mutable std::atomic<bool> has_warned_ = false;
};

}  // namespace

std::unique_ptr<Matcher> pcre2_matcher(std::string_view pattern, const std::string& name) {
  return std::make_unique<Pcre2Matcher>(pattern, name);
}

}  // namespace sluice::text
