#include "train/gradients/gradient_sink.hpp"

#include "ops/buffers/gradients.hpp"

#include <array>
#include <cmath>
#include <numeric>
#include <vector>

namespace sluice {
namespace {

/// Whether this rank counts a unit's gradients in the norm: of float32 parameters all ranks have the same.
bool is_counted(const GradientStore& store, int unit) {
  return unit != store.plan().whole_unit() || store.rank() == 0;
}

/// Updates every trained unit from the gradients that the store has kept.
void update_from_kept(const GradientSinkParts& parts, double scale) {
  const PhaseTimer::Scope phase(parts.timer, Phase::kOptimizer);
  for (int unit = 0; unit < parts.optimizer.layout().units(); ++unit) {
    if (!parts.store.plan().is_trained(unit)) continue;
    const GradientPart gradient = parts.store.kept(unit);
    const std::vector<double> squares =
        parts.optimizer.clips_matrices() ? parts.optimizer.matrix_squares(gradient) : std::vector<double>();
    parts.optimizer.update(gradient, squares, scale);
  }
}

/// Sink that keeps gradients in float32: the reducer's sums themselves.
class KeepingSink final : public GradientSink {
 public:
  explicit KeepingSink(const GradientSinkParts& parts) : parts_(parts) {}

  [[nodiscard]] double squares() const override {
    const ShardArena& shards = parts_.store.shards();
    const double of_shards =
        ops::sum_of_squares(shards.data(), shards.dtype(), shards.plan().trained_elements(shards.rank()));
    const GradientPart whole = parts_.store.kept(shards.plan().whole_unit());
    return of_shards + (is_counted(parts_.store, whole.unit)
                            ? ops::sum_of_squares(whole.data, whole.dtype, whole.elements.count())
                            : 0);
  }
  [[nodiscard]] NonFinite non_finite() const override {
    const ShardPlan& plan = parts_.store.plan();
    const NonFinite in_shards = find_non_finite(parts_.store.shards(), parts_.manifest, UnitOrder::kBackward);
    if (in_shards.found()) return in_shards;
    const GradientPart whole = parts_.store.kept(plan.whole_unit());
    return find_non_finite(plan, parts_.manifest, whole.unit, whole.elements, whole.data, whole.dtype,
                           UnitOrder::kBackward);
  }
  void update(double scale) override { update_from_kept(parts_, scale); }

 private:
  void begin(GradientUse /*use*/, double /*scale*/) override {}
  void use(const GradientPart& /*sums*/) override {}

  GradientSinkParts parts_;
};

/// Sink that measures gradients as they arrive, before they are rounded or freed.
class MeasuringSink : public GradientSink {
 public:
  explicit MeasuringSink(const GradientSinkParts& parts) : parts_(parts) {}

  [[nodiscard]] double squares() const override { return squares_; }
  [[nodiscard]] NonFinite non_finite() const override { return non_finite_; }

 protected:
  [[nodiscard]] const GradientSinkParts& parts() const { return parts_; }

  void begin(GradientUse /*use*/, double /*scale*/) override {
    squares_ = 0;
    non_finite_ = {};
  }

 private:
  void use(const GradientPart& sums) final {
    const PhaseTimer::Scope phase(parts_.timer, Phase::kOptimizer);
    const std::vector<double> squares = parts_.optimizer.matrix_squares(sums);
    const double sum = std::accumulate(squares.begin(), squares.end(), 0.0);
    if (is_counted(parts_.store, sums.unit)) squares_ += sum;
    if (!std::isfinite(sum) && !non_finite_.found())
      non_finite_ = find_non_finite(parts_.store.plan(), parts_.manifest, sums.unit, sums.elements, sums.data,
                                    sums.dtype, UnitOrder::kBackward);
    use_measured(sums, squares);
  }
  /// Uses gradients that were measured; `squares` are the sums of squares of the part's matrices.
  virtual void use_measured(const GradientPart& sums, std::span<const double> squares) = 0;

  GradientSinkParts parts_;
  double squares_ = 0;
  NonFinite non_finite_;
};

class RoundingSink final : public MeasuringSink {
 public:
  using MeasuringSink::MeasuringSink;
  void update(double scale) override { update_from_kept(parts(), scale); }

 private:
  void use_measured(const GradientPart& sums, std::span<const double> /*squares*/) override {
    parts().store.keep_rounded(sums);
  }
};

/// Sink that updates each part at once, unless an earlier gradient was not finite: on this rank, or on any
/// rank before the last unit that ranks share.
class ReleasingSink final : public MeasuringSink {
 public:
  using MeasuringSink::MeasuringSink;

  [[nodiscard]] std::span<const GradientUse> passes() const override {
    static constexpr std::array kPasses{GradientUse::kNorm, GradientUse::kUpdate};
    return std::span(kPasses).last(parts().clips_globally ? 2 : 1);
  }
  [[nodiscard]] std::int64_t updated_parts() const override { return updated_parts_; }
  void update(double /*scale*/) override {}

 private:
  void begin(GradientUse use, double scale) override {
    MeasuringSink::begin(use, scale);
    updates_ = use == GradientUse::kUpdate;
    scale_ = scale;
    gives_up_ = false;
    updated_parts_ = 0;
  }

  void use_measured(const GradientPart& sums, std::span<const double> squares) override {
    if (!updates_) return;
    // Units of several ranks, and float32 parameters, come in the same order on all of them.
    const ShardPlan& plan = parts().store.plan();
    if (plan.sharers(sums.unit) > 1 || sums.unit == plan.whole_unit()) {
      std::array<std::int64_t, 1> found{non_finite().found() ? 1 : 0};
      parts().comm.all_reduce_max(found);
      gives_up_ = found[0] != 0;
    }
    if (gives_up_ || non_finite().found()) return;
    parts().optimizer.update(sums, squares, scale_);
    ++updated_parts_;
  }

  bool updates_ = true;
  /// Whether some rank found a gradient that is not finite, after which the step makes no more updates.
  bool gives_up_ = false;
  double scale_ = 1;
  std::int64_t updated_parts_ = 0;
};

}  // namespace

std::span<const GradientUse> GradientSink::passes() const {
  static constexpr std::array kPasses{GradientUse::kUpdate};
  return kPasses;
}

void GradientSink::begin_pass(GradientUse use, double scale) {
  use_ = use;
  begin(use, scale);
}

void GradientSink::take(const GradientPart& sums) {
  if (observer_ && use_ == GradientUse::kUpdate) observer_(sums);
  use(sums);
}

std::unique_ptr<GradientSink> make_gradient_sink(GradientMode mode, const GradientSinkParts& parts) {
  if (mode == GradientMode::kRelease) return std::make_unique<ReleasingSink>(parts);
  if (mode == GradientMode::kBFloat16) return std::make_unique<RoundingSink>(parts);
  return std::make_unique<KeepingSink>(parts);
}

}  // namespace sluice
