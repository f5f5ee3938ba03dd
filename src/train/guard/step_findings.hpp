// What is told of a step whose numbers are not finite.
#pragma once

#include "comm/communicator.hpp"
#include "train/layer_recompute.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

/// Collective over `comm`. The first place on any rank where what a layer takes in is not finite: "the
/// embedding", "the output of layer 2". Layers below `lowest_layer` keep nothing.
[[nodiscard]] std::string first_broken_activation(Communicator& comm,
                                                  std::span<const TrainedMicroBatch> micro_batches,
                                                  int lowest_layer, int layers);

/// Collective over `comm`. What is told of gradients that are not finite, of which `first` is the first.
/// `updated_parts`: what this rank had updated before that was known.
[[nodiscard]] std::string broken_gradient_text(Communicator& comm, double loss, double grad_norm,
                                               const std::string& first, std::int64_t updated_parts);

/// Error(kNumerics): the job ends with step `number` for what was found.
[[noreturn]] void fail_numerics(std::int64_t number, const std::string& finding);

}  // namespace sluice
