// The forward pass of sequences that go on, over sharded weights: only the newest tokens are computed.
//
// Each rank has sequences of its own, with their keys, values and states; the weights are gathered and
// released stage by stage, and the tokens travel to their experts, as in training. So no rank ever holds the
// model, and what the caches take is divided by the ranks. The other way, all ranks computing the same tokens
// over dense weights that each holds whole, would spare the gathering, but a rank would hold the dense part
// of the model, and the work would not be shared.
#pragma once

#include "comm/communicator.hpp"
#include "decoder/decoder.hpp"
#include "decoder/sequence_cache.hpp"
#include "shard/arena.hpp"
#include "train/stage_binder.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// New tokens of one sequence.
struct NewTokens {
  std::int64_t slot = 0;  ///< slot of the sequence in the cache
  std::vector<std::int64_t> ids;
};

class CachedForward {
 public:
  /// Allocates the cache for `slots` sequences on this rank, of at most `positions` tokens each, and nothing
  /// else that stays, except the experts' exchange. `binder`, which must outlive this object, may be a
  /// trainer's, between its steps.
  CachedForward(StageBinder& binder, const ModelConfig& model, std::int64_t slots, std::int64_t positions);

  /// Tokens whose logits are computed: the last one of each sequence, or all.
  enum class Wanted : bool { kLast, kAll };

  /// Collective over the communicator. Appends tokens to sequences of this rank, possibly to none; a sequence
  /// occurs once at most. Returns logits [rows, vocabulary] float32 of the tokens that would follow the
  /// wanted ones. Error(kNumerics), on every rank alike, if one of any rank is not finite; Error(kBadData)
  /// for an id outside the vocabulary.
  [[nodiscard]] at::Tensor append(std::span<const NewTokens> parts, Wanted wanted = Wanted::kLast);

  /// Clears a slot: the next tokens appended to it begin a new sequence.
  void clear(std::int64_t slot);
  /// The next tokens that are appended to a slot go on with these, of which the slot keeps as many as it has
  /// from an earlier sequence that began with them too, but for the last, which is to be computed. How many
  /// it keeps: length(). With states, which cannot be taken back, that is all of the earlier sequence or
  /// nothing.
  void keep_beginning(std::int64_t slot, std::span<const std::int64_t> ids);
  /// Number of tokens in the slot's sequence.
  [[nodiscard]] std::int64_t length(std::int64_t slot) const {
    return std::ssize(sequences_[static_cast<std::size_t>(slot)]);
  }
  /// Number of passes so far, which are calls of append().
  [[nodiscard]] std::int64_t passes() const { return passes_; }
  [[nodiscard]] std::int64_t slots() const { return std::ssize(sequences_); }
  [[nodiscard]] std::int64_t positions() const { return cache_.positions(); }
  [[nodiscard]] Communicator& comm() const { return binder_.comm(); }

 private:
  [[nodiscard]] std::vector<SequencePart> add_to_sequences(std::span<const NewTokens> news);
  [[nodiscard]] at::Tensor logits_of(const at::Tensor& ids, std::span<const SequencePart> parts,
                                     Wanted wanted);

  StageBinder& binder_;
  Decoder decoder_;
  SequenceCache cache_;
  std::vector<std::vector<std::int64_t>> sequences_;  ///< token ids of each slot's sequence
  std::int64_t passes_ = 0;
};

}  // namespace sluice
