// Enumerations of the keys of a job file that choose between a few values: one for each such key.
#pragma once

#include "base/answers.hpp"
#include "base/optimizer_mode.hpp"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace sluice {

/// Range of steps, first to last, counted from 1; empty if `first` is 0.
struct StepRange {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] bool has(std::int64_t step) const { return first > 0 && step >= first && step <= last; }
};

enum class JobKind : std::uint8_t { kTrain, kPrefer, kLoad, kExport, kEvaluate, kGenerate, kScore };

/// Whether jobs of this kind train a model: on tokens, or on pairs of answers.
[[nodiscard]] constexpr bool is_training(JobKind kind) {
  return kind == JobKind::kTrain || kind == JobKind::kPrefer;
}

/// Whether jobs of a kind read every token of data.tokens once, and learn nothing.
[[nodiscard]] constexpr bool evaluates_tokens(JobKind kind) {
  return kind == JobKind::kEvaluate || kind == JobKind::kScore;
}

enum class ModelInit : std::uint8_t { kCheckpoint, kRandom };

/// Format of frozen weights in memory.
enum class FrozenFormat : std::uint8_t {
  kDType,   ///< numbers of the type that model.dtype names
  kStored,  ///< codes and scales, as the weights were published
  kInt8,    ///< 8-bit integers with one scale per row, quantised while weights are loaded
  kNf4,     ///< NF4 codes with one scale per 64 elements, quantised while weights are loaded
};
/// Whether a format changes the values of frozen weights from those that were published.
[[nodiscard]] constexpr bool is_quantised_by_load(FrozenFormat format) {
  return format == FrozenFormat::kInt8 || format == FrozenFormat::kNf4;
}

/// What becomes of dense weights that are not trained, once they were gathered.
enum class FrozenWeights : std::uint8_t {
  kAuto,      ///< kept where memory has room for all of them
  kGathered,  ///< gathered in every pass
  kKept,      ///< gathered once, and kept whole on every rank
};

/// How ranks share the rows of embedding and head, which are one for each token of the vocabulary.
enum class VocabularySharing : std::uint8_t {
  kAuto,      ///< whichever sends fewer bytes
  kGathered,  ///< every rank gathers the head, and computes the logits of its own tokens
  kSharded,   ///< every rank computes the logits of its own rows for the tokens of all ranks of its set
};

enum class Readers : std::uint8_t { kRank0, kNode, kAll };

/// What happens to files in the page cache after they were read. On unified memory the page cache competes
/// with the model.
enum class CachePolicy : std::uint8_t {
  kAuto,  ///< keep files that were cached before, drop others
  kKeep,
  kDrop,  ///< drop all files, whoever brought them into the cache
};

enum class LoadSink : std::uint8_t { kShards, kDiscard };

/// Order of the training sequences.
enum class DataOrder : std::uint8_t {
  kShuffle,  ///< a new seeded permutation each time all sequences were used
  kSequential,
};

/// Treatment of packed documents with more tokens than a sequence has.
enum class LongDocuments : std::uint8_t { kSplit, kCut, kLeaveOut };

/// Activations that the backward pass recomputes.
enum class Recompute : std::uint8_t {
  kLayer,  ///< activations of a layer but attention's, whose output is kept
  kNone,   ///< no activations: all are kept
  kAll,    ///< all activations of a layer: only its input is kept
};

/// Layers over which the load-balancing loss balances the loads of experts.
enum class BalancingScope : std::uint8_t {
  /// All layers together, as in transformers: experts with equal indices in different layers are counted as
  /// one.
  kModel,
  kLayer,  ///< each layer by itself (Fedus et al. 2021); the loss is the mean over layers
};

/// Loss of a pair of answers, of which one is preferred (train/objective/preference_loss.hpp).
enum class PreferenceLoss : std::uint8_t { kSigmoid, kSigmoidNorm, kIpo, kHinge, kOrpo };

/// How answers multiply a few tokens with frozen weights that memory holds as codes.
enum class AnswerProducts : std::uint8_t {
  kExact,  ///< multiplies the numbers that codes stand for, with the bits of the same weights in bfloat16
  kInt8,   ///< multiplies codes as integers with activations rounded to 8 bits
};

/// What a file of scores keeps of the model's distribution at each target.
enum class ScoreDistribution : std::uint8_t {
  kNone,
  kSampled,  ///< tokens drawn from it
  kTop,      ///< the most probable tokens
};

/// Loss of a model against the distributions of another.
enum class DistilLoss : std::uint8_t { kForwardKl };

/// Model whose log-probabilities those of the trained one are compared with.
enum class PreferenceReference : std::uint8_t {
  kAuto,    ///< kBase where the job trains a new adapter, else kStart; none is left once the job file is read
  kBase,    ///< the model without its adapters, in the same passes
  kStart,   ///< the weights that the job starts from, by scores that it makes before its first step
  kScores,  ///< any model, by files of scores
};

/// Value of prefer.reference.
struct ReferenceSettings {
  PreferenceReference kind = PreferenceReference::kAuto;
  std::vector<std::filesystem::path> files{};  ///< files of scores, with kScores; else empty
};

/// Kind of device that the ranks compute on.
enum class DeviceKind : std::uint8_t {
  kAuto,  ///< GPUs if every rank has one, the CPU if no rank has one
  kCpu,
  kCuda,
};

enum class OptimizerFit : std::uint8_t { kAsWritten, kAuto };

/// Place for weights and optimizer state that exceed the memory limit.
enum class Offload : std::uint8_t {
  kNone,
  kDisk,    ///< one file per rank on a disk
  kSource,  ///< the published files, for frozen weights alone
};

enum class ScheduleKind : std::uint8_t { kConstant, kCosine, kLinear };

/// Kind of storage that checkpoints are saved to.
enum class SaveStorage : std::uint8_t {
  kAuto,    ///< kShared if all ranks see a file that rank 0 made, else kNode
  kShared,  ///< one file system that all ranks see
  kNode,    ///< each host's own disk, for the files of its ranks
};

/// Reaction of a training to a failed save.
enum class SaveFailure : std::uint8_t { kContinue, kStop };

/// Reaction to a step whose loss or gradients are not finite.
enum class OnNonFinite : std::uint8_t { kStop, kSkip };

/// Reaction to a step whose loss is far above the losses before it.
enum class OnSpike : std::uint8_t { kWarn, kSkip, kRewind };

/// Weights that are exported when training ends.
enum class ExportAtEnd : std::uint8_t {
  kNo,
  kLast,  ///< the weights after the last step
  kBest,  ///< the weights of the checkpoint with the lowest held-out loss
};

/// Form of exported weights.
enum class ExportFormat : std::uint8_t {
  kPlain,  ///< plain numbers: quantised weights of the source become bfloat16
  /// The source's own format: the bytes of weights that the job leaves unchanged, and FP8 codes for FP8
  /// weights that it changes.
  kSource,
};

enum class ExportExperts : std::uint8_t { kSource, kPerExpert, kFused };
enum class ExportAdapters : std::uint8_t { kKeep, kMerge };

}  // namespace sluice
