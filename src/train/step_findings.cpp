#include "train/step_findings.hpp"

#include "base/error.hpp"

#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace sluice {

std::string first_broken_activation(Communicator& comm, std::span<const TrainedMicroBatch> micro_batches,
                                    int lowest_layer, int layers) {
  std::array<std::int64_t, 1> before_first{-layers};
  for (const TrainedMicroBatch& micro_batch : micro_batches)
    for (std::int64_t layer = std::max(lowest_layer, 0); layer < -before_first[0]; ++layer)
      if (!at::isfinite(micro_batch.layers[static_cast<std::size_t>(layer)].input).all().item<bool>())
        before_first[0] = -layer;
  comm.all_reduce_max(before_first);
  const std::int64_t first = -before_first[0];
  if (first == 0) return "the embedding";
  if (first == lowest_layer) return fmt::format("the output of layer {} or one below it", first - 1);
  return first < layers ? fmt::format("the output of layer {}", first - 1)
                        : "the output of the last layer or of the head";
}

std::string broken_gradient_text(Communicator& comm, double loss, double grad_norm, const std::string& first,
                                 std::int64_t updated_parts) {
  std::array<std::int64_t, 1> updated{updated_parts};
  comm.all_reduce_max(updated);
  return fmt::format(
      "loss {} and gradient norm {}: not finite, first in the gradient of {}, so {}", loss, grad_norm, first,
      updated[0] == 0 ? "the weights were left as they are"
                      : "that and all below it were left as they are; layers above it were updated in this "
                        "step already, as gradients are released");
}

void fail_numerics(std::int64_t number, const std::string& finding) {
  fail({ExitCode::kNumerics, "train.not_finite"},
       "step {}: {}. Likely causes: too high a learning rate, or weights that are already broken", number,
       finding);
}

}  // namespace sluice
