#include "generate/token_sampler.hpp"

#include "base/error.hpp"
#include "base/random.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <vector>

namespace sluice {
namespace {

constexpr float kRuledOut = -std::numeric_limits<float>::infinity();

/// Exponentials e^(logit - largest logit), and their sum.
struct Powers {
  std::vector<double> values;
  double sum = 0;
};

Powers powers_of(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  Powers powers;
  powers.values.reserve(logits.size());
  for (const float logit : logits) powers.sum += powers.values.emplace_back(std::exp(logit - largest));
  return powers;
}

/// Returns a random number in [0, 1) with 53 bits.
double unit_number(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

/// First token at which the cumulative probability exceeds `place`, a share of the sum of all.
std::int64_t token_at(std::span<const float> logits, double place) {
  const Powers powers = powers_of(logits);
  double left = place * powers.sum;
  std::int64_t last = 0;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (powers.values[token] == 0) continue;
    last = static_cast<std::int64_t>(token);
    left -= powers.values[token];
    if (left < 0) break;
  }
  return last;
}

}  // namespace

void penalize_repetition(std::span<float> logits, std::span<const std::int64_t> seen, double penalty) {
  const auto factor = static_cast<float>(penalty);
  for (const std::int64_t token : std::set<std::int64_t>(seen.begin(), seen.end())) {
    SLUICE_ASSERT(token >= 0 && token < std::ssize(logits), "token id {} is outside of {} logits", token,
                  logits.size());
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = logit < 0 ? logit * factor : logit / factor;
  }
}

void keep_top_k(std::span<float> logits, std::int64_t k) {
  if (k >= std::ssize(logits)) return;
  std::vector<float> sorted(logits.begin(), logits.end());
  const auto last = sorted.begin() + (k - 1);
  std::nth_element(sorted.begin(), last, sorted.end(), std::greater<>());
  std::ranges::replace_if(
      logits, [least = *last](float logit) { return logit < least; }, kRuledOut);
}

void keep_top_p(std::span<float> logits, double p) {
  const Powers powers = powers_of(logits);
  std::vector<std::size_t> tokens;
  for (std::size_t token = 0; token < logits.size(); ++token)
    if (powers.values[token] > 0) tokens.push_back(token);
  std::ranges::stable_sort(tokens, {}, [&](std::size_t token) { return logits[token]; });
  double below = 0;
  for (const std::size_t token : std::span(tokens).first(tokens.size() - 1)) {
    below += powers.values[token] / powers.sum;
    if (below > 1 - p) break;
    logits[token] = kRuledOut;
  }
}

void keep_min_p(std::span<float> logits, double p) {
  const float least = *std::ranges::max_element(logits) + static_cast<float>(std::log(p));
  std::ranges::replace_if(
      logits, [least](float logit) { return logit < least; }, kRuledOut);
}

void keep_tokens(std::span<float> logits, std::span<const std::int64_t> seen,
                 const GenerateSettings& settings) {
  if (settings.repetition_penalty != 1) penalize_repetition(logits, seen, settings.repetition_penalty);
  for (float& logit : logits) logit /= static_cast<float>(settings.temperature);
  if (settings.top_k > 0) keep_top_k(logits, settings.top_k);
  if (settings.top_p < 1) keep_top_p(logits, settings.top_p);
  if (settings.min_p > 0) keep_min_p(logits, settings.min_p);
}

std::int64_t TokenSampler::next(std::span<float> logits, std::span<const std::int64_t> seen,
                                std::int64_t position) const {
  if (settings_.temperature == 0) {
    if (settings_.repetition_penalty != 1) penalize_repetition(logits, seen, settings_.repetition_penalty);
    return std::ranges::max_element(logits) - logits.begin();
  }
  keep_tokens(logits, seen, settings_);
  const RandomStream draws(static_cast<std::uint64_t>(settings_.seed), fmt::format("generate {}", number_));
  return token_at(logits, unit_number(draws.bits(static_cast<std::uint64_t>(position))));
}

}  // namespace sluice
