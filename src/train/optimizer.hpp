// Optimizer: updates a rank's shards, unit by unit, in every format of its state.
#pragma once

#include "base/random.hpp"
#include "ops/buffers/adafactor.hpp"
#include "ops/buffers/optimizer.hpp"
#include "plan/optimizer_layout.hpp"
#include "shard/arena_access.hpp"
#include "shard/rank_mesh.hpp"
#include "shard/shard_values.hpp"
#include "train/trainer_options.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// Summed gradients of consecutive elements of a unit's buffer, or of all of ShardPlan::whole_unit(), all owned
/// by this rank.
struct GradientPart {
  int unit = -1;
  Range elements;
  const std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
};

class Optimizer {
 public:
  /// Takes the present weights as master values. Allocates the state of OptimizerLayout, and nothing that
  /// stays after that; with paged weights part of the state is paged too. All references must outlive the
  /// optimizer.
  Optimizer(const RankMesh& mesh, const ParameterManifest& manifest, ShardArena& weights,
            const OptimizerSettings& settings);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Sets `observer`, which is called with each unit before an update changes its weights and state, part by
  /// part.
  void before_update(std::function<void(int unit)> observer) { before_update_ = std::move(observer); }

  /// Begins step `number`, from 1, with learning rate `rate`. A step counts whether or not its update was
  /// made, so that a run resumed after a skipped update is the same.
  void begin_step(std::int64_t number, double rate) {
    step_ = number;
    rate_ = rate;
  }

  /// Sum of squares of this rank's gradients for each matrix in the part, in the order of the layout.
  [[nodiscard]] std::vector<double> matrix_squares(const GradientPart& gradient) const;

  /// Updates the weights of the part from its gradients times `scale`. With ClipRule::kUnit each matrix's
  /// gradients are clipped by their own norm, from `matrix_squares` as matrix_squares() returns them (else
  /// not read). Collective over the ranks that share the unit, if there are several and the rule is kUnit or
  /// the state is factored; then a part is all that the rank owns of it.
  void update(const GradientPart& gradient, std::span<const double> matrix_squares, double scale);

  /// Calls the observer of before_update(): the unit is about to change.
  void announce_update(int unit) const {
    if (before_update_) before_update_(unit);
  }
  /// Whether update() needs matrix_squares().
  [[nodiscard]] bool clips_matrices() const {
    return settings_.clip == ClipRule::kUnit && settings_.max_grad_norm > 0;
  }

  [[nodiscard]] const OptimizerLayout& layout() const { return layout_; }
  [[nodiscard]] const std::byte* state() const { return state_.data(); }
  [[nodiscard]] std::byte* state() { return state_.data(); }
  /// Number of the last step that has begun; 0: none.
  [[nodiscard]] std::int64_t steps() const { return step_; }
  /// The weights at the highest precision that is kept. The result refers to this optimizer.
  [[nodiscard]] const ShardValues& master() const { return master_; }

 private:
  class Master final : public ShardValues {
   public:
    explicit Master(const Optimizer& optimizer) : optimizer_(optimizer) {}
    [[nodiscard]] const ShardPlan& plan() const override;
    [[nodiscard]] int rank() const override;
    [[nodiscard]] DType dtype() const override;
    void read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const override;
    void read_buffers(std::int64_t begin, std::int64_t count, float* out) const override;
    [[nodiscard]] const std::byte* find(std::int64_t begin, DType dtype) const override;

   private:
    const Optimizer& optimizer_;
  };

  using Matrices = std::span<const MatrixState>;
  [[nodiscard]] Matrices matrices_in(const GradientPart& gradient) const;
  [[nodiscard]] const MatrixState& matrix_at(std::int64_t arena_begin) const;
  [[nodiscard]] std::vector<double> scales(int unit, std::span<const double> matrix_squares, double scale,
                                           std::size_t count) const;
  void sum_over_sharers(int unit, std::span<double> values) const;
  [[nodiscard]] static const std::byte* gradient_of(const GradientPart& gradient, const MatrixState& matrix);
  [[nodiscard]] std::uint64_t draws(const MatrixState& matrix) const;
  [[nodiscard]] ops::MomentStep moment_step() const;
  [[nodiscard]] std::byte* array(const MatrixState& matrix, StateArray array) const;
  [[nodiscard]] std::byte* weights_of(const MatrixState& matrix) const;
  [[nodiscard]] DType weights_type(const MatrixState& matrix) const {
    return matrix.is_whole ? DType::kFloat32 : weights_.dtype();
  }
  void update_moments(const GradientPart& gradient, Matrices matrices, std::span<const double> scales);
  void update_factored(const GradientPart& gradient, Matrices matrices, std::span<const double> scales);
  void update_factored_together(const GradientPart& gradient, Matrices matrices,
                                std::span<const double> scales);
  [[nodiscard]] ops::FactoredRun factored_run(const GradientPart& gradient, const MatrixState& matrix,
                                              double scale) const;

  const RankMesh& mesh_;
  ShardArena& weights_;
  OptimizerSettings settings_;
  OptimizerLayout layout_;
  MemoryBlock state_;
  PagedState paged_state_;
  std::vector<RandomStream> streams_;  ///< random streams, one per manifest tensor
  Master master_{*this};
  std::function<void(int unit)> before_update_;
  double rate_ = 0;
  std::int64_t step_ = 0;  ///< number of the last step that has begun, from 1; 0: none
};

}  // namespace sluice
