// Reduce-scatters the gradients of gathered units into the gradient shards of their owners.
#pragma once

#include "decoder/parameter_views.hpp"
#include "device/stream.hpp"
#include "shard/double_ended_buffer.hpp"
#include "shard/rank_mesh.hpp"
#include "shard/row_exchange.hpp"
#include "shard/stage_plan.hpp"
#include "train/gradients/gradient_store.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace sluice {

/// Function that consumes a unit's final gradients of a step: this rank's shard of their sums, or with
/// experts in turn the sums of one expert, in float32.
using GradientConsumer = std::function<void(const GradientPart& sums)>;

/// Reduces gradients stage by stage. Backward writes a stage's gradients to a float32 buffer that is
/// allocated once; reduce() begins to sum them over the ranks into the store, overlapped with the backward of
/// the next stage. If experts are reduced too, a second stage would take too much memory, and reduce()
/// completes at once. A unit may be reduced more than once in a step (a tied embedding): its sums are added
/// up.
class GradientReducer {
 public:
  /// `mesh`, `stages`, `views` and `store` must outlive the reducer. Gradients of units that a rank owns
  /// alone are written to the store directly. reduce() and finish() call `consumer`, in the same order on all
  /// ranks, and for experts in turn while they are computed.
  GradientReducer(const RankMesh& mesh, const StagePlan& stages, ParameterViews& views, GradientStore& store,
                  GradientConsumer consumer);

  /// Begins a step: gradients in the store become outdated, and buffers that an abandoned step has opened are
  /// freed.
  void begin_step();
  /// Points the gradient views of a stage's trained units at memory in which the first gradient replaces old
  /// numbers.
  void open(const Stage& stage);
  /// open() for the embedding's stage if this rank has gradients for `rows` alone: returns zeros [rows,
  /// hidden] in place of the view. `rows` must fit() unless the unit is one by rows, and stay valid until reduce().
  [[nodiscard]] at::Tensor open_rows(const Stage& stage, const RowExchange& rows);
  /// Collective over the world. Begins to add the gradients written since open() or open_rows(), summed over
  /// the ranks that hold the same units, to the store; unbinds the views. Completes the reduction that the
  /// last call began. Sums of several sets are added up before the consumer gets them.
  void reduce(const Stage& stage);
  /// Completes the reduction that reduce() began: the store holds the sums, or the consumer has had them.
  void finish();
  /// Collective over all ranks. Adds up the gradients of float32 parameters, which backward has written to
  /// the store, in the order of the ranks, and hands them to the consumer.
  void reduce_whole();

 private:
  /// A pending reduction into a unit's shard, or into `part`, which is then added to the shard.
  struct Reduction {
    Work work;
    int unit;
    float *part, *shard;
    std::int64_t count;
    bool is_final;  ///< whether no other stage adds to the unit's gradients
  };

  [[nodiscard]] bool is_trained(int unit) const { return store_.plan().is_trained(unit); }
  /// Whether gradients of a unit are those of this rank's shard, whole.
  [[nodiscard]] bool is_alone(int unit) const { return !store_.plan().is_gathered(unit); }
  [[nodiscard]] bool takes_experts_in_turn(int unit) const;
  [[nodiscard]] bool is_final(const Stage& stage, int unit) const;
  void spoil_if_tested(int unit, float* gradients) const;
  void consume(int unit);
  void consume_expert(int unit, std::int64_t expert);
  /// Clears the gaps between tensors, where the buffer has numbers of other units.
  void clear_gaps(int unit, float* held) const;
  /// Clears what follows this rank's rows of a unit by rows.
  void clear_behind_rows(int unit, float* held) const;
  [[nodiscard]] std::int64_t held_elements(int unit) const;
  /// Buffer bytes of the units of a stage whose gradients are reduced.
  [[nodiscard]] std::int64_t received_bytes(const Stage& stage) const;
  [[nodiscard]] Reduction begin_unit(const Stage& stage, int unit, float* held);
  void reduce_rows(int unit);

  const RankMesh& mesh_;
  const StagePlan& stages_;
  ParameterViews& views_;
  GradientStore& store_;
  GradientConsumer consumer_;
  bool overlaps_;
  DoubleEndedBuffer room_;
  SideStream stream_;
  /// Gradients of the stage that is computed, and of the stage that is reduced.
  std::span<std::byte> open_, reduced_;
  std::vector<Reduction> reductions_;
  std::vector<bool> has_gradient_;     ///< whether each unit was already reduced in this step
  const RowExchange* rows_ = nullptr;  ///< exchange of rows, set between open_rows() and reduce(); else null
  at::Tensor row_gradients_;           ///< gradients of rows of a unit by rows, for as long
};

}  // namespace sluice
