#include "train/objective/objective.hpp"

#include "ops/buffers/host_values.hpp"

#include <limits>

namespace sluice {

void DistilObjective::add(std::size_t /*micro_batch*/, const at::Tensor& losses,
                          std::vector<double>& sums) const {
  sums[kLosses] += losses.sum().item<double>();
}

void DistilObjective::add_taught(const ops::TaughtLosses& parts, std::vector<double>& sums) const {
  sums[kOwnLosses] += parts.own.sum().item<double>();
  sums[kTeacherLosses] += parts.teacher.sum().item<double>();
  sums[kEntropies] += parts.entropies.sum().item<double>();
  sums[kTaughtTokens] += static_cast<double>(parts.is_taught.sum().item<std::int64_t>());
}

ObjectiveResult DistilObjective::finish(std::span<const double> sums) const {
  const double taught = sums[kTaughtTokens], none = std::numeric_limits<double>::quiet_NaN();
  return {
      .loss = sums[kLosses] / targets_,
      .distil = DistilMetrics{.own_loss = sums[kOwnLosses] / targets_,
                              .teacher_loss = taught > 0 ? sums[kTeacherLosses] / taught : none,
                              .teacher_entropy = taught > 0 && is_exact_ ? sums[kEntropies] / taught : none}};
}

/// Sequences of a micro-batch that has `tokens` tokens.
Range PreferenceObjective::sequences_of(std::size_t micro_batch, std::int64_t tokens) const {
  const std::int64_t begin = static_cast<std::int64_t>(micro_batch) * sequences_;
  return {begin, begin + tokens / pairs_.length()};
}

void PreferenceObjective::take_reference(std::size_t micro_batch, const at::Tensor& losses) {
  pairs_.set_reference(sequences_of(micro_batch, losses.numel()), ops::host_values<double>(losses));
}

ops::LossCoefficients PreferenceObjective::coefficients(std::size_t micro_batch) const {
  return [this, micro_batch](const at::Tensor& losses) {
    const std::vector<double> coefficients = pairs_.coefficients(sequences_of(micro_batch, losses.numel()),
                                                                 ops::host_values<double>(losses), counts_);
    return ops::tensor_of<double>(coefficients, losses.device());
  };
}

void PreferenceObjective::add(std::size_t micro_batch, const at::Tensor& losses,
                              std::vector<double>& sums) const {
  pairs_.add(sequences_of(micro_batch, losses.numel()), ops::host_values<double>(losses), sums);
}

ObjectiveResult PreferenceObjective::finish(std::span<const double> sums) const {
  const auto mean = [&](PreferenceSum sum) { return sums[sum] / sums[kPairs]; };
  return {.loss = preference_loss(settings_, sums),
          .preferences = PreferenceMetrics{.chosen_reward = mean(kChosenRewards),
                                           .rejected_reward = mean(kRejectedRewards),
                                           .accuracy = mean(kRightPairs),
                                           .chosen_log_prob = mean(kChosenLogProbs),
                                           .rejected_log_prob = mean(kRejectedLogProbs),
                                           .has_margin = sums[kPairsWithMargin] > 0}};
}

}  // namespace sluice
