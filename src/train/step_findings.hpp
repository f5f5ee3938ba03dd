// Texts about a step whose numbers are not finite.
#pragma once

#include "comm/communicator.hpp"
#include "train/layer_recompute.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

/// Collective over `comm`. First place on any rank where the input of a layer is not finite: "the embedding",
/// "the output of layer 2". Layers below `lowest_layer` keep no inputs.
[[nodiscard]] std::string first_broken_activation(Communicator& comm,
                                                  std::span<const TrainedMicroBatch> micro_batches,
                                                  int lowest_layer, int layers);

/// Collective over `comm`. Text about gradients that are not finite, of which `first` is the first.
/// `updated_parts`: number of parts that this rank had updated before that was known.
[[nodiscard]] std::string broken_gradient_text(Communicator& comm, double loss, double grad_norm,
                                               const std::string& first, std::int64_t updated_parts);

/// Throws Error(kNumerics): the job ends with step `number` because of the finding.
[[noreturn]] void fail_numerics(std::int64_t number, const std::string& finding);

}  // namespace sluice
