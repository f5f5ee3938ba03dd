// How many answers of conversations teach a model to stop. Token files keep the numbers.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

/// Attributes of a token file that hold the numbers, if it has answers.
inline constexpr const char* kAnswersAttribute = "answers";
inline constexpr const char* kEndlessAttribute = "answers_without_end";

/// Numbers of answers that are learnt.
struct AnswerCounts {
  std::int64_t all = 0;
  /// Number of answers of which no end token of the model is learnt: it does not learn to stop there.
  std::int64_t endless = 0;

  AnswerCounts& operator+=(const AnswerCounts& other) {
    all += other.all;
    endless += other.endless;
    return *this;
  }
};

/// Warning that follows the name of a file: how many of its answers teach no end, and what to do; "" if all
/// teach one.
[[nodiscard]] std::string endless_text(const AnswerCounts& answers);

}  // namespace sluice
