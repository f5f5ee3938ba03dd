// Options of a trainer. Needs no LibTorch.
#pragma once

#include "config/job_config.hpp"

#include <cstdint>
#include <optional>

namespace sluice {

struct TrainerOptions {
  std::int64_t sequence_length = 0;  ///< length of a sequence, tokens
  /// settings of the job, with aux_loss_coefficient filled in from the model, 0 or more
  TrainSettings train{};
  OptimizerSettings optimizer{};
  std::optional<PreferSettings> prefer{};  ///< what is learnt of pairs; nothing: cross-entropy is learnt
  std::optional<DistilSettings> distil{};  ///< how a teacher's distributions are learnt; nothing without one
  double adapter_dropout = 0;              ///< dropout of the inputs of LoRA adapters
  std::uint64_t adapter_seed = 0;          ///< seed of that dropout
  OnNonFinite on_nonfinite = OnNonFinite::kStop;
};

}  // namespace sluice
