// Enumerations of the keys of a job file that choose between a few values: one for each such key.
#pragma once

#include "base/optimizer_mode.hpp"

#include <cstdint>

namespace sluice {

/// Steps first to last, counted from 1; none if `first` is 0.
struct StepRange {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] bool has(std::int64_t step) const { return first > 0 && step >= first && step <= last; }
};

enum class JobKind : std::uint8_t { kTrain, kLoad, kExport, kEvaluate, kGenerate };

enum class ModelInit : std::uint8_t { kCheckpoint, kRandom };

/// How frozen weights lie in memory.
enum class FrozenFormat : std::uint8_t {
  kDType,   ///< numbers of the type that model.dtype names
  kStored,  ///< codes and scales, as the weights were published
  kInt8,    ///< integers of 8 bits with a scale for each row, made while weights are loaded
  kNf4,     ///< NF4 codes with a scale for each 64 elements, made in the same way
};
/// Whether frozen weights are other numbers in that form than those that were published.
[[nodiscard]] constexpr bool is_quantised_by_load(FrozenFormat format) {
  return format == FrozenFormat::kInt8 || format == FrozenFormat::kNf4;
}

enum class Readers : std::uint8_t { kRank0, kNode, kAll };

/// Treatment of the page cache of files that have been read. On unified memory it competes with the model.
enum class CachePolicy : std::uint8_t {
  kAuto,  ///< keep what was cached before, leave nothing else behind
  kKeep,
  kDrop,  ///< leave nothing behind, whoever brought it in
};

enum class LoadSink : std::uint8_t { kShards, kDiscard };

/// Order of the training sequences.
enum class DataOrder : std::uint8_t {
  kShuffle,  ///< a new seeded permutation each time all sequences have been taken
  kSequential,
};

/// Treatment of packed documents with more tokens than a sequence has.
enum class LongDocuments : std::uint8_t { kSplit, kCut, kLeaveOut };

/// Activations that the backward pass computes again.
enum class Recompute : std::uint8_t {
  kLayer,  ///< all of a layer but its attention, whose output is kept
  kNone,   ///< nothing: all activations are kept
  kAll,    ///< all of a layer: its input alone is kept
};

/// Layers over which the load-balancing loss wants experts to have equal loads.
enum class BalancingScope : std::uint8_t {
  /// All layers together, as in transformers: experts of one index in different layers make up for each
  /// other.
  kModel,
  kLayer,  ///< each layer by itself (Fedus et al. 2021); the loss is the mean over layers
};

/// Kind of device that the ranks compute on.
enum class DeviceKind : std::uint8_t {
  kAuto,  ///< GPUs where every rank has one, the CPU where none has
  kCpu,
  kCuda,
};

enum class OptimizerFit : std::uint8_t { kAsWritten, kAuto };

/// Place for weights and optimizer state that exceed the memory limit.
enum class Offload : std::uint8_t {
  kNone,
  kDisk,    ///< a file of each rank
  kSource,  ///< frozen weights alone: the files that they were published in
};

enum class ScheduleKind : std::uint8_t { kConstant, kCosine, kLinear };

/// Kind of storage that checkpoints are saved to.
enum class SaveStorage : std::uint8_t {
  kAuto,    ///< kShared where all ranks see what rank 0 made, else kNode
  kShared,  ///< one file system that all ranks see
  kNode,    ///< each rank on its own host's disk
};

/// Reaction of a training to a failed save.
enum class SaveFailure : std::uint8_t { kContinue, kStop };

/// Reaction to a step whose loss or gradients are not finite.
enum class OnNonFinite : std::uint8_t { kStop, kSkip };

/// Reaction to a step whose loss is far above those before.
enum class OnSpike : std::uint8_t { kWarn, kSkip, kRewind };

/// Weights that are exported when training ends.
enum class ExportAtEnd : std::uint8_t {
  kNo,
  kLast,  ///< the weights after the last step
  kBest,  ///< the weights of the checkpoint with the lowest held-out loss
};

/// Form of exported weights.
enum class ExportFormat : std::uint8_t {
  kPlain,  ///< export of numbers: quantised weights of the source become bfloat16
  /// The source's own form: bytes of weights that the job leaves as they were, and FP8 codes of FP8 weights
  /// that it changes.
  kSource,
};

enum class ExportExperts : std::uint8_t { kSource, kPerExpert, kFused };
enum class ExportAdapters : std::uint8_t { kKeep, kMerge };

}  // namespace sluice
