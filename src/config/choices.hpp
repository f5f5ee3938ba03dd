// What a key of the job file may choose between, for whoever acts on it: one enumeration for each such key.
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

enum class Readers : std::uint8_t { kRank0, kNode, kAll };

/// What becomes of the page cache behind the reader. On unified memory it competes with the model.
enum class CachePolicy : std::uint8_t {
  kAuto,  ///< keep what was cached before, leave nothing else behind
  kKeep,
  kDrop,  ///< leave nothing behind, whoever brought it in
};

enum class LoadSink : std::uint8_t { kShards, kDiscard };

enum class DataOrder : std::uint8_t {
  kShuffle,  ///< a new seeded permutation each time all sequences have been taken
  kSequential,
};

/// What packing does with documents of more tokens than a sequence has.
enum class LongDocuments : std::uint8_t { kSplit, kCut, kLeaveOut };

enum class Recompute : std::uint8_t {
  kLayer,  ///< all of a layer but its attention, whose output is kept
  kNone,   ///< nothing: all activations are kept
  kAll,    ///< all of a layer: its input alone is kept
};

/// Over what the load-balancing loss wants experts to have equal loads.
enum class BalancingScope : std::uint8_t {
  kModel,  ///< over all layers together, as transformers: experts of one number in different layers make up for each other
  kLayer,  ///< in each layer by itself (Fedus et al. 2021), and the loss is the mean of the layers
};

/// What the ranks compute on.
enum class DeviceKind : std::uint8_t {
  kAuto,  ///< GPUs where every rank has one, the CPU where none has
  kCpu,
  kCuda,
};

enum class OptimizerFit : std::uint8_t { kAsWritten, kAuto };

/// Where what does not fit goes.
enum class Offload : std::uint8_t { kNone, kDisk };

enum class ScheduleKind : std::uint8_t { kConstant, kCosine, kLinear };

/// Where the ranks of a training run save its state.
enum class SaveStorage : std::uint8_t {
  kAuto,    ///< kShared where all ranks see what rank 0 made, else kNode
  kShared,  ///< one file system that all ranks see
  kNode,    ///< each rank on its own host's disk
};

/// What a training run does when its state could not be saved.
enum class SaveFailure : std::uint8_t { kContinue, kStop };

/// What a step does whose loss or gradients are not finite.
enum class OnNonFinite : std::uint8_t { kStop, kSkip };

/// What a step does whose loss is far above those before.
enum class OnSpike : std::uint8_t { kWarn, kSkip, kRewind };

/// Whether a training ends with an export, and of which weights.
enum class ExportAtEnd : std::uint8_t {
  kNo,
  kLast,  ///< those after its last step
  kBest,  ///< those of the saved step with the lowest held-out loss
};

enum class ExportExperts : std::uint8_t { kSource, kPerExpert, kFused };
enum class ExportAdapters : std::uint8_t { kKeep, kMerge };

}  // namespace sluice
