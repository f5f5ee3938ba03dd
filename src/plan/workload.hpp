// Workload: what a job does with a model, as far as its memory depends on it.
#pragma once

#include "base/dtype.hpp"
#include "base/optimizer_mode.hpp"

#include <cstdint>
#include <optional>

namespace sluice {

/// Work of a job with a model.
struct Workload {
  bool computes = true;            ///< runs the model: trains or evaluates it
  bool trains = true;              ///< updates it; only a job that computes does
  bool keeps_weights = true;       ///< false: a load that lets go of every byte where it arrives
  DType dtype = DType::kBFloat16;  ///< type of weights and activations

  /// Tokens of each sequence in a pass of a rank: the sequence's length, or generate.prefill_tokens in a job
  /// that only answers prompts.
  std::int64_t pass_length = 0;
  std::int64_t batch_sequences = 0;        ///< sequences per step over all ranks
  std::int64_t micro_batch_sequences = 1;  ///< sequences per pass of a rank
  std::int64_t packing_bytes = 0;          ///< bytes that packing takes on rank 0
  std::int64_t threads = 0;                ///< compute threads per rank; 0 = as many as the machine gives it
  bool on_device = false;                  ///< computes on a GPU, and on more at once

  bool drops_inputs = false;  ///< whether adapters have dropout
  OptimizerMode optimizer{};  ///< formats of optimizer state, if the job trains
  bool has_z_loss = false;    ///< whether routers have a z-loss
  bool evaluates = false;     ///< other tokens while it trains
  /// Staging bytes for a file that a checkpoint is saved to; 0 = no checkpoints.
  std::int64_t save_staging_bytes = 0;

  /// A job that answers prompts: what is there of them at once.
  struct Answers {
    std::int64_t sequences = 0;  ///< sequences answered at once, over all ranks
    std::int64_t positions = 0;  ///< tokens of prompt and answer together
  };
  /// Set for jobs that answer prompts. Between the steps of one that trains, a rank takes no more tokens per
  /// pass than a micro-batch has.
  std::optional<Answers> answers{};

  // Activations of a layer that are kept from forward to backward, besides its input.
  bool keeps_attention = true;  ///< attention's output, and what lies between the layer's halves
  bool keeps_graphs = false;    ///< everything, so that nothing is computed again

  /// Bytes that a rank may hold in all, where a disk takes what is more; nothing where there is none.
  std::optional<std::int64_t> offload_above{};
  /// Whether that disk has the files of the checkpoint and no others, so that frozen weights can stay there.
  bool offloads_to_source = false;

  [[nodiscard]] std::int64_t batch_tokens() const { return batch_sequences * pass_length; }
};

}  // namespace sluice
