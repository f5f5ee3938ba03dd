// Notes at the start of a job on effects that its job file does not spell out.
#pragma once

#include "config/job_config.hpp"
#include "data/batch_options.hpp"
#include "model/architecture.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Notes about a job on `world` ranks, a line each: unknown keys of config.json, ranks without a sequence,
/// sequences longer than the model's positions, kinds of projections of which adapters change less than half.
[[nodiscard]] std::vector<std::string> job_notes(const JobConfig& config, const ModelDescription& described,
                                                 int world);

/// Notes about the adapters that a training begins: weights that PEFT refuses to adapt, and that lora.targets left out
/// for it, or adapted all the same.
[[nodiscard]] std::vector<std::string> adapter_notes(const JobConfig& config, const ModelDescription& model);

/// Notes on how this process was started: alone, in a Slurm allocation of several tasks.
[[nodiscard]] std::vector<std::string> launch_notes(int world);

/// Note that a rank is bound to fewer `cores` than its share of the `all_cores` cores that the `local_ranks`
/// ranks of its machine have together; "" if it is not.
[[nodiscard]] std::string binding_note(int rank, int cores, int all_cores, int local_ranks);

/// Note that ranks of a machine may not read each other's memory, and on what the user sets so that Open MPI does
/// not tell so of each message; "" if `reads_neighbours`, if the user has chosen, and for other MPIs than those of
/// setting_without_single_copy().
[[nodiscard]] std::string single_copy_note(bool reads_neighbours, std::string_view library);

/// Text about the distributions that a training learns, for a line of the start.
[[nodiscard]] std::string teacher_text(const DistilSettings& distil, const TeacherFacts& teacher);

/// "41 sequences of 48 tokens, documents kept apart; 8 steps of 6 sequences are 1.17 epochs"; an evaluation
/// has one epoch and does not say so. A training on several files tells of each, in a line of its own, its
/// sequences, its share of those that the steps take, and its epochs. Of packed documents: how many there
/// are, how full their sequences, and how many are longer than one. Of pairs in plain training: that both answers are
/// learnt.
[[nodiscard]] std::string data_text(const JobConfig& config, const std::vector<SourceFacts>& facts);

}  // namespace sluice
