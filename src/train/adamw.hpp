// AdamW with float32 master weights and moments, each sharded like the weights.
#pragma once

#include "manifest/manifest.hpp"
#include "shard/arena.hpp"
#include "train/trainer_options.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

class AdamW {
 public:
  /// `manifest` and `weights` must outlive the optimizer. Takes the weights as they are now as the float32
  /// master values; for float32 weights the arena itself is the master.
  AdamW(const ParameterManifest& manifest, ShardArena& weights, const AdamWOptions& options);

  /// Updates this rank's shards from its summed gradients times `gradient_scale`, at rate `rate`. No
  /// communication. Weight decay applies to tensors of two or more dimensions.
  void update(const ShardArena& gradients, double rate, double gradient_scale);

  /// float32 values of this rank's shards.
  [[nodiscard]] const ShardArena& master() const { return master_ ? *master_ : weights_; }

 private:
  /// Consecutive elements of the arena with one decay.
  struct Span {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    bool decays = false;
  };
  [[nodiscard]] static std::vector<Span> find_spans(const ParameterManifest& manifest, const ShardPlan& plan,
                                                    int rank);
  [[nodiscard]] static std::vector<Span> merged(std::vector<Span> spans);

  AdamWOptions options_;
  ShardArena& weights_;
  std::optional<ShardArena> master_;
  ShardArena first_moment_;
  ShardArena second_moment_;
  std::vector<Span> spans_;
  std::int64_t updates_ = 0;
};

}  // namespace sluice
