// Gradient sink: what happens to a step's gradients. They are kept in float32, kept rounded to bfloat16, or
// used for the update as they arrive and then freed.
#pragma once

#include "comm/communicator.hpp"
#include "shard/finite_check.hpp"
#include "train/gradients/gradient_reducer.hpp"
#include "train/gradients/gradient_store.hpp"
#include "train/optimizer.hpp"
#include "train/phase_timer.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace sluice {

/// What a backward pass computes gradients for.
enum class GradientUse : std::uint8_t {
  kNorm,   ///< backward for the norm alone: released gradients cannot wait
  kUpdate  ///< the update
};

class GradientSink {
 public:
  GradientSink() = default;
  GradientSink(const GradientSink&) = delete;
  GradientSink& operator=(const GradientSink&) = delete;
  virtual ~GradientSink() = default;

  /// The backward passes that a step needs, in order; the last one is for the update.
  [[nodiscard]] virtual std::span<const GradientUse> passes() const;

  /// Begins a backward pass. `scale` is the factor of gradients that update weights as they arrive.
  void begin_pass(GradientUse use, double scale);

  /// Takes this rank's summed gradients of a unit, or of one expert, in float32. Collective over the ranks
  /// that share the unit, where gradients are released.
  void take(const GradientPart& sums);

  /// Sum of squares of this rank's gradients in the pass.
  [[nodiscard]] virtual double squares() const = 0;
  /// This rank's first gradient in the pass that is not finite, in the order of the backward pass.
  [[nodiscard]] virtual NonFinite non_finite() const = 0;
  /// Number of parts of units that this rank has updated in the pass.
  [[nodiscard]] virtual std::int64_t updated_parts() const { return 0; }

  /// Updates the weights from kept gradients times `scale`; does nothing if gradients were released.
  /// Collective as Optimizer::update().
  virtual void update(double scale) = 0;

  /// Sets `observer`, which sees all gradients of a step in float32 before they are used: once each, part by
  /// part of the units.
  void observe(GradientConsumer observer) { observer_ = std::move(observer); }

 private:
  virtual void begin(GradientUse use, double scale) = 0;
  virtual void use(const GradientPart& sums) = 0;

  GradientConsumer observer_;
  GradientUse use_ = GradientUse::kUpdate;
};

/// Objects with which a sink works; all must outlive the sink.
struct GradientSinkParts {
  Communicator& comm;
  const ParameterManifest& manifest;
  GradientStore& store;
  Optimizer& optimizer;
  PhaseTimer& timer;
  bool clips_globally = false;  ///< whether an update needs the global norm of all gradients first
};

/// Makes the sink for a gradient mode; `parts.store` has its memory.
[[nodiscard]] std::unique_ptr<GradientSink> make_gradient_sink(GradientMode mode,
                                                               const GradientSinkParts& parts);

}  // namespace sluice
