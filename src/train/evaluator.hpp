// Evaluation: the forward pass alone over sharded weights, for the cross-entropy of each token.
#pragma once

#include "comm/communicator.hpp"
#include "config/job_config.hpp"
#include "data/batch.hpp"
#include "decoder/decoder.hpp"
#include "train/micro_batch.hpp"
#include "train/objective/preference_batch.hpp"
#include "train/stage_binder.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

class Evaluator {
 public:
  /// All references must outlive the evaluator. `binder` may be a trainer's, between its steps. Allocates
  /// nothing that stays.
  Evaluator(Communicator& comm, const ModelConfig& model, StageBinder& binder, std::int64_t sequence_length,
            std::int64_t micro_batch_sequences);

  /// Collective over the communicator. Cross-entropy in nats of every target of this rank's share of a batch,
  /// which may be empty: [sequences x length], 0 for a target that begins a document or is padding.
  /// Error(kNumerics), on every rank alike, if a loss on any rank is not finite.
  [[nodiscard]] std::vector<double> losses(const Batch& share);

  /// Collective over the communicator. Sums of the preferences in this rank's share of a batch, which may be
  /// empty; under the reference, if `settings` have one, in the same walk. Errors as for losses().
  [[nodiscard]] PreferenceSums preferences(const Batch& share, const PreferSettings& settings);

 private:
  [[nodiscard]] std::vector<std::vector<double>> losses_of(std::span<const Decoder* const> decoders,
                                                           const Batch& share, ChosenPrompts prompts);

  Communicator& comm_;
  StageBinder& binder_;
  Decoder decoder_;
  std::int64_t sequence_length_, micro_batch_sequences_;
};

}  // namespace sluice
