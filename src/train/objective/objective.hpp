// The loss that a step minimises, as a function of the losses of its tokens. No communication.
#pragma once

#include "ops/loss.hpp"
#include "train/objective/objective_result.hpp"
#include "train/objective/preference_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// The objective of one step on one rank. The step's loss is a function of sums over all ranks, each of a few
/// numbers, to which every micro-batch adds; its derivative by the loss of a token is known to the rank that
/// has the token.
class Objective {
 public:
  virtual ~Objective() = default;
  Objective(const Objective&) = delete;
  Objective& operator=(const Objective&) = delete;

  /// Takes the losses [b, L] (float64) of a micro-batch's tokens under the reference, before anything else of
  /// that micro-batch, in a step that has a reference.
  virtual void take_reference(std::size_t /*micro_batch*/, const at::Tensor& /*losses*/) {}

  /// Derivatives of the step's loss by the losses of a micro-batch's tokens. Valid as long as the objective.
  [[nodiscard]] virtual ops::LossCoefficients coefficients(std::size_t micro_batch) const = 0;

  /// Sums over no token.
  [[nodiscard]] virtual std::vector<double> no_sums() const = 0;
  /// Adds a micro-batch with the `losses` [b, L] (float64) of its tokens.
  virtual void add(std::size_t micro_batch, const at::Tensor& losses, std::vector<double>& sums) const = 0;
  /// Adds the parts of the same losses, which they have where tokens have a teacher.
  virtual void add_taught(const ops::TaughtLosses& /*parts*/, std::vector<double>& /*sums*/) const {}
  /// The step's loss from the sums over all ranks.
  [[nodiscard]] virtual ObjectiveResult finish(std::span<const double> sums) const = 0;

 protected:
  Objective() = default;
};

/// Cross-entropy: the mean loss of the targets of the global batch, of which there are `targets`.
class CrossEntropyObjective final : public Objective {
 public:
  explicit CrossEntropyObjective(double targets) : targets_(targets) {}
  [[nodiscard]] ops::LossCoefficients coefficients(std::size_t /*micro_batch*/) const override {
    return 1 / targets_;
  }
  [[nodiscard]] std::vector<double> no_sums() const override { return {0}; }
  void add(std::size_t /*micro_batch*/, const at::Tensor& losses, std::vector<double>& sums) const override {
    sums.front() += losses.sum().item<double>();
  }
  [[nodiscard]] ObjectiveResult finish(std::span<const double> sums) const override {
    return {.loss = sums.front() / targets_};
  }

 private:
  double targets_;
};

/// The mean loss of the targets of the global batch, of which there are `targets`, each as ops::TeacherTokens has it.
class DistilObjective final : public Objective {
 public:
  /// `is_exact`: whether the entropy of the teacher's distributions is known.
  DistilObjective(double targets, bool is_exact) : targets_(targets), is_exact_(is_exact) {}
  [[nodiscard]] ops::LossCoefficients coefficients(std::size_t /*micro_batch*/) const override {
    return 1 / targets_;
  }
  [[nodiscard]] std::vector<double> no_sums() const override { return std::vector<double>(kSumCount, 0.0); }
  void add(std::size_t micro_batch, const at::Tensor& losses, std::vector<double>& sums) const override;
  void add_taught(const ops::TaughtLosses& parts, std::vector<double>& sums) const override;
  [[nodiscard]] ObjectiveResult finish(std::span<const double> sums) const override;

 private:
  enum Sum : std::uint8_t { kLosses, kOwnLosses, kTeacherLosses, kEntropies, kTaughtTokens, kSumCount };

  double targets_;
  bool is_exact_;
};

/// Preference between the answers of pairs, as preference_loss() has it.
class PreferenceObjective final : public Objective {
 public:
  /// `pairs` are those of a rank's share of a batch, cut into micro-batches of `micro_batch_sequences`
  /// sequences; `counts` those of the whole global batch.
  PreferenceObjective(const PreferSettings& settings, PreferenceBatch pairs, const PreferenceSums& counts,
                      std::int64_t micro_batch_sequences)
      : settings_(settings), pairs_(std::move(pairs)), counts_(counts), sequences_(micro_batch_sequences) {}
  void take_reference(std::size_t micro_batch, const at::Tensor& losses) override;
  [[nodiscard]] ops::LossCoefficients coefficients(std::size_t micro_batch) const override;
  [[nodiscard]] std::vector<double> no_sums() const override {
    return std::vector<double>(kPreferenceSumCount, 0.0);
  }
  void add(std::size_t micro_batch, const at::Tensor& losses, std::vector<double>& sums) const override;
  [[nodiscard]] ObjectiveResult finish(std::span<const double> sums) const override;

 private:
  [[nodiscard]] Range sequences_of(std::size_t micro_batch, std::int64_t tokens) const;

  PreferSettings settings_;
  PreferenceBatch pairs_;
  PreferenceSums counts_;
  std::int64_t sequences_;
};

}  // namespace sluice
