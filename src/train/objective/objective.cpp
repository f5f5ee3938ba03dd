#include "train/objective/objective.hpp"

#include "ops/buffers/host_values.hpp"

namespace sluice {

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
