// Options of batches, trainer and learning rates from a job's settings, and how it balances the load of
// experts: by a loss, or by correction biases.
#pragma once

#include "config/job_config.hpp"
#include "data/batch_options.hpp"
#include "data/reference_scores.hpp"
#include "model/architecture.hpp"
#include "train/learning_rate.hpp"
#include "train/trainer_options.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

/// Batch options of the tables [data] and [train]; an evaluation takes every token of data.tokens once.
/// `vocab_size` is the model's.
[[nodiscard]] BatchOptions batch_options(const JobConfig& config, std::int64_t vocab_size);

/// Key of the tokens of entry `index` of data.source, as messages about job files write it.
[[nodiscard]] std::string key_of_source(std::size_t index);

/// Batch options of a file that is evaluated while the job trains: every token once.
[[nodiscard]] BatchOptions held_out_options(const JobConfig& config, const std::filesystem::path& tokens,
                                            std::int64_t vocab_size);

/// What scores of the reference, in these files, must be of.
[[nodiscard]] ReferenceOptions reference_options(const ModelDescription& model,
                                                 std::vector<std::filesystem::path> files);

/// Trainer options of the tables [data], [train], [optimizer], [lora] and [guard].
[[nodiscard]] TrainerOptions trainer_options(const JobConfig& config, const ModelDescription& model);

/// Learning-rate schedule of the tables [schedule], [train] and [optimizer].
[[nodiscard]] LearningRateSchedule learning_rate_schedule(const JobConfig& config);

/// Value of train.aux_loss_coefficient, or the default of the model's family: 0 for families that are trained
/// without a load-balancing loss. Error(kBadConfig) if the job sets one for such a family.
[[nodiscard]] double balancing_coefficient(const TrainSettings& train, const ModelConfig& model);

/// Text with settings that would balance the loads of experts better than the present ones.
[[nodiscard]] std::string balancing_advice(const TrainSettings& train, const ModelConfig& model);

/// Error(kBadConfig) if the job sets a z-loss for a model without routers.
void require_routers(const TrainSettings& train, const ModelConfig& model);

/// Error(kBadConfig) if the job updates correction biases that the model does not have, or trains adapters,
/// which cannot hold them.
void require_movable_biases(const JobConfig& config, const ModelConfig& model);

}  // namespace sluice
