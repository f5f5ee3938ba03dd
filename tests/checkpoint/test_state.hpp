// A training's state whose bytes tell where they belong, for tests that save and restore it.
#pragma once

#include "checkpoint/save.hpp"
#include "checkpoint/state_spans.hpp"
#include "model/small_model.hpp"
#include "plan/optimizer_layout.hpp"
#include "support/mpi_test.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace sluice::test {

/// Weights and state on the ranks of a communicator.
class State {
 public:
  State(Communicator& comm, const SmallModel& model, const UnitLayouts& layouts, const OptimizerMode& mode,
        DType dtype, int expert_parallel)
      : manifest_(model.description.manifest),
        plan_(layouts, {.world = comm.size(), .expert_parallel = expert_parallel}),
        weights_(plan_, comm.rank(), dtype, MemoryKind::kPrivate, "weights"),
        layout_(manifest_, plan_, comm.rank(), mode, dtype),
        block_(allocate(MemoryKind::kPrivate, layout_.bytes(), "state")),
        spans_(list_state(manifest_, weights_, {&layout_, mode, block_.data()})) {}

  /// Each byte from what it is of, the same for any number of ranks.
  static std::byte byte_of(const StateSpan& span, std::int64_t index) {
    const std::int64_t at = span.numbers.begin * size_of(span.dtype) + index;
    return static_cast<std::byte>(span.tensor * 31 + std::ssize(span.array) * 17 + at * 7 + at / 251);
  }
  void fill() {
    for (const StateSpan& span : spans_)
      for (std::int64_t i = 0; i < span.bytes(); ++i) span.data[i] = byte_of(span, i);
  }
  [[nodiscard]] std::int64_t wrong_bytes() const {
    std::int64_t wrong = 0;
    for (const StateSpan& span : spans_)
      for (std::int64_t i = 0; i < span.bytes(); ++i) wrong += span.data[i] == byte_of(span, i) ? 0 : 1;
    return wrong;
  }
  [[nodiscard]] const std::vector<StateSpan>& spans() const { return spans_; }
  [[nodiscard]] ShardArena& weights() { return weights_; }
  [[nodiscard]] const ShardPlan& plan() const { return plan_; }

 private:
  const ParameterManifest& manifest_;
  ShardPlan plan_;
  ShardArena weights_;
  OptimizerLayout layout_;
  MemoryBlock block_;
  std::vector<StateSpan> spans_;
};

inline SaveRequest request_of(const std::filesystem::path& directory, const SmallModel& model,
                              const State& state, std::int64_t step) {
  return {.directory = directory,
          .manifest = model.description.manifest,
          .state = {state.spans().begin(), state.spans().end()},
          .description = {.step = step, .world_size = test_world().size()}};
}

}  // namespace sluice::test
