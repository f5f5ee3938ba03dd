// Workload: what a job does with a model, as far as its memory depends on it.
#pragma once

#include "base/dtype.hpp"
#include "base/optimizer_mode.hpp"

#include <cstdint>
#include <optional>

namespace sluice {

/// Work of a job with a model.
struct Workload {
  bool computes = true;            ///< whether the job runs the model, to train or evaluate it
  bool trains = true;              ///< whether the job updates the model; only a job that computes does
  bool keeps_weights = true;       ///< false for a load that drops every byte where it arrives
  DType dtype = DType::kBFloat16;  ///< type of weights and activations

  /// Tokens of each sequence in one pass of a rank: the sequence length, or generate.prefill_tokens in a job
  /// that only answers prompts.
  std::int64_t pass_length = 0;
  std::int64_t batch_sequences = 0;        ///< sequences per step, over all ranks
  std::int64_t micro_batch_sequences = 1;  ///< sequences per pass of one rank
  std::int64_t packing_bytes = 0;          ///< bytes that packing takes on rank 0
  std::int64_t pair_bytes = 0;             ///< bytes of the pairs of answers of one sequence
  /// compute threads per rank; 0: as many as the machine gives the rank
  std::int64_t threads = 0;
  bool on_device = false;  ///< computes on a GPU, and on more at once

  bool drops_inputs = false;  ///< whether adapters have dropout
  OptimizerMode optimizer{};  ///< formats of optimizer state, if the job trains
  /// Backward passes of a step: two where gradients that are released are clipped by the norm of them all.
  int backward_passes = 1;
  bool has_z_loss = false;     ///< whether routers have a z-loss
  bool has_reference = false;  ///< whether tokens also pass through the model without its adapters
  /// Tokens of the distribution at each target that the job writes, or learns from a teacher.
  std::int64_t distribution_tokens = 0;
  bool draws_distribution = false;  ///< whether the tokens of distributions that the job writes are drawn
  bool evaluates = false;  ///< whether the job evaluates held-out tokens, or scores pairs, beside training
  /// Staging bytes for saving a checkpoint to a file; 0: no checkpoints are saved.
  std::int64_t save_staging_bytes = 0;

  /// Sequences that a job which answers prompts has at once.
  struct Answers {
    std::int64_t sequences = 0;  ///< sequences answered at once, over all ranks
    std::int64_t positions = 0;  ///< most tokens of a prompt and its answer together
  };
  /// Set for jobs that answer prompts. If the job also trains, a rank takes at most as many tokens per pass
  /// as a micro-batch has.
  std::optional<Answers> answers{};

  // Whether activations of a layer, besides its input, are kept from forward to backward:
  bool keeps_attention = true;  ///< attention's output, and the hidden states between the layer's halves
  bool keeps_graphs = false;    ///< all activations, so that nothing is recomputed

  /// Bytes that a rank may hold in memory before more is offloaded to a disk; nothing if there is no disk for
  /// that.
  std::optional<std::int64_t> offload_above{};
  /// Whether the disk holds only the checkpoint's own files, so that frozen weights alone can stay there.
  bool offloads_to_source = false;

  [[nodiscard]] std::int64_t batch_tokens() const { return batch_sequences * pass_length; }
};

}  // namespace sluice
