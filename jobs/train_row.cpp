#include "train_row.hpp"

#include "base/bytes.hpp"
#include "metrics/expert_use.hpp"
#include "process/console.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluice {
namespace {

/// Seconds of the phases, made to add up to the step: time that the trainer did not count (reading tokens,
/// dumps) goes to the last phase, "other".
std::vector<double> phases_of_step(const PhaseSeconds& phases, double step_seconds) {
  std::vector<double> out(phases.begin(), phases.end());
  out.back() += step_seconds - std::accumulate(phases.begin(), phases.end(), 0.0);
  return out;
}

/// Text of held-out losses, "  held out 4.12345, 3.98765", or "".
std::string held_out_text(const std::vector<double>& losses) {
  std::string text;
  for (const double loss : losses)
    if (!std::isnan(loss)) text += fmt::format("{}{:.5f}", text.empty() ? "  held out " : ", ", loss);
  return text;
}

/// Text of the preferences of a step, "  margin 0.1234, accuracy 75 %, log-probabilities -12.3 and -14.5"; "" in
/// a job that learns none.
std::string preference_text(const PreferenceRow& row) {
  if (std::isnan(row.margin)) return "";
  return fmt::format(
      "  rewards {:.4f} and {:.4f}, margin {:.4f}, accuracy {:.0f} %, log-probabilities {:.3f} and {:.3f}",
      row.chosen_reward, row.rejected_reward, row.margin, 100 * row.accuracy, row.chosen_log_prob,
      row.rejected_log_prob);
}

/// Text of the parts of a step's loss, "  own 3.21000, teacher 2.95000 (entropy 2.50000)"; "" in a job without a teacher.
std::string distil_text(const DistilRow& row) {
  if (std::isnan(row.own_loss)) return "";
  return fmt::format(
      "  own {:.5f}{}{}", row.own_loss,
      std::isnan(row.teacher_loss) ? "" : fmt::format(", teacher {:.5f}", row.teacher_loss),
      std::isnan(row.teacher_entropy) ? "" : fmt::format(" (entropy {:.5f})", row.teacher_entropy));
}

/// Text of the load of the busiest expert over the mean of its layer, "  experts to 2.1x, 3 unused"; ""
/// without MoE layers.
std::string expert_text(const TrainRow& row, std::int64_t experts) {
  if (row.expert_tokens.empty()) return "";
  const ExpertUse use = expert_use(row.expert_tokens, experts);
  return fmt::format("  experts to {:.1f}x{}{}", use.busiest,
                     use.unused == 0 ? "" : fmt::format(", {} unused", use.unused),
                     std::isnan(row.z_loss) ? "" : fmt::format(", z-loss {:.4g}", row.z_loss));
}

}  // namespace

TrainRow row_of_step(std::int64_t step, const StepMetrics& metrics, double learning_rate, double seconds,
                     const StepRates& rates) {
  TrainRow row;
  row.step = step;
  row.loss = metrics.loss;
  row.grad_norm = metrics.grad_norm;
  row.learning_rate = learning_rate;
  row.tokens = metrics.tokens;
  row.filled = static_cast<double>(metrics.tokens) / static_cast<double>(rates.step_tokens);
  row.step_seconds = seconds;
  row.tokens_per_second = static_cast<double>(metrics.tokens) / seconds;
  row.model_flops_per_second = rates.flops_per_token * row.tokens_per_second;
  row.mfu = row.model_flops_per_second / rates.product_rate;
  row.communicated_bytes = metrics.communicated_bytes;
  row.phase_seconds = phases_of_step(metrics.phase_seconds, seconds);
  row.expert_tokens = metrics.expert_tokens;
  row.aux_loss = metrics.aux_loss;
  row.left_out = metrics.left_out == LeftOut::kNo ? 0 : 1;
  if (const auto& found = metrics.preferences)
    row.preferences = {found->chosen_reward, found->rejected_reward, found->margin(),
                       found->accuracy,      found->chosen_log_prob, found->rejected_log_prob};
  if (const auto& found = metrics.distil)
    row.distil = {found->own_loss, found->teacher_loss, found->teacher_entropy};
  return row;
}

bool has_held_out_loss(const TrainRow& row) {
  return std::ranges::any_of(row.held_out_loss, [](double loss) { return !std::isnan(loss); });
}

std::string step_line(const TrainRow& row, std::int64_t steps, std::int64_t experts, double seconds_left) {
  return fmt::format(
      "step {}/{}  loss {:.5f}{}{}{}  grad norm {:.4f}  lr {:.3e}  {:.0f} tokens/s  {:.3f} TFLOP/s (MFU {:.0f} "
      "%){}  peak {}  left {}{}",
      row.step, steps, row.loss, held_out_text(row.held_out_loss), preference_text(row.preferences),
      distil_text(row.distil), row.grad_norm, row.learning_rate, row.tokens_per_second,
      row.model_flops_per_second / 1e12, 100 * row.mfu, expert_text(row, experts),
      format_mib(*std::ranges::max_element(row.peak_bytes)), console::time_text(seconds_left),
      row.left_out != 0 ? "  update skipped" : "");
}

double seconds_left(std::int64_t step, std::int64_t first, std::int64_t total, double seconds_since_first) {
  if (step == total) return 0;
  if (step <= first) return -1;
  return seconds_since_first / static_cast<double>(step - first) * static_cast<double>(total - step);
}

}  // namespace sluice
