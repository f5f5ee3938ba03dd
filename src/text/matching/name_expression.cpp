#include "text/matching/name_expression.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace sluice::text {
namespace {

// Most steps of a match: a hostile expression may be exponential.
constexpr std::uint32_t kStepLimit = 100'000;
constexpr std::size_t kLongestExpression = 64 << 10;

std::string error_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct NameExpression::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
  }
};

NameExpression::NameExpression(std::string_view expression, std::string name)
    : compiled_(std::make_unique<Compiled>()), name_(std::move(name)) {
  if (expression.size() > kLongestExpression)
    fail({ExitCode::kBadData, "text.tokenizer"}, "{}: a pattern of {} bytes; at most {} are read", name_,
         expression.size(), kLongestExpression);
  int error = 0;
  std::size_t offset = 0;
  compiled_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                  PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_NEVER_BACKSLASH_C,
                                  &error, &offset, nullptr);
  if (compiled_->code == nullptr)
    fail({ExitCode::kBadData, "text.tokenizer"}, "{}: '{}' is not a valid pattern: {} at byte {}", name_,
         printable(expression), error_message(error), offset);
  compiled_->data = pcre2_match_data_create(1, nullptr);
  compiled_->context = pcre2_match_context_create(nullptr);
  SLUICE_ASSERT(compiled_->data != nullptr && compiled_->context != nullptr, "no memory to match with");
  pcre2_set_match_limit(compiled_->context, kStepLimit);
}

NameExpression::NameExpression(NameExpression&&) noexcept = default;
NameExpression& NameExpression::operator=(NameExpression&&) noexcept = default;
NameExpression::~NameExpression() = default;

bool NameExpression::matches(std::string_view text) const {
  const int found = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                                compiled_->data, compiled_->context);
  if (found < 0 && found != PCRE2_ERROR_NOMATCH)
    fail({ExitCode::kBadData, "text.tokenizer"}, "{}: '{}' cannot be matched against it: {}", name_,
         printable(text), error_message(found));
  return found >= 0;
}

}  // namespace sluice::text
