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

/// What a model makes of the targets of a rank's share of a batch, [sequences x length] each.
struct TokenScores {
  std::vector<double>
      losses;  ///< cross-entropy of each target in nats; 0 for one that begins a document or is padding
  std::vector<std::uint8_t> greedy;  ///< 1 for a target that is the most probable token, else 0
  TokenDistributions
      distributions{};  ///< distributions at the targets, if asked for; any for one without loss
};

class Evaluator {
 public:
  /// All references must outlive the evaluator. `binder` may be a trainer's, between its steps. Allocates
  /// nothing that stays.
  Evaluator(Communicator& comm, const ModelConfig& model, StageBinder& binder, std::int64_t sequence_length,
            std::int64_t micro_batch_sequences);

  /// Collective over the communicator. Scores of every target of this rank's share of a batch, which may be empty,
  /// with the distributions that `settings` ask for; draws need a batch with places.
  /// Error(kNumerics), on every rank alike, if a loss on any rank is not finite.
  [[nodiscard]] TokenScores scores(const Batch& share, const ScoreSettings& settings = {});

  /// Collective over the communicator. TokenScores::losses of scores().
  [[nodiscard]] std::vector<double> losses(const Batch& share) { return scores(share).losses; }

  /// Collective over the communicator. Sums of the preferences in this rank's share of a batch, which may be
  /// empty; under the reference, if tokens pass through it too, in the same walk. Errors as for scores().
  [[nodiscard]] PreferenceSums preferences(const Batch& share, const PreferSettings& settings);

 private:
  [[nodiscard]] std::vector<TokenScores> scores_of(std::span<const Decoder* const> decoders,
                                                   const Batch& share, ChosenPrompts prompts,
                                                   const ScoreSettings& settings = {});

  Communicator& comm_;
  StageBinder& binder_;
  Decoder decoder_;
  std::int64_t sequence_length_, micro_batch_sequences_;
};

}  // namespace sluice
