// Answers to prompts: each rank takes its share of them, some at a time, begun and finished independently.
#pragma once

#include "generate/cached_forward.hpp"
#include "generate/token_sampler.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sluice {

struct GenerationRequest {
  std::int64_t number = 0;           ///< names the draws of its answer
  std::vector<std::int64_t> prompt;  ///< token ids of the prompt, at least one
};

struct GenerationOptions {
  GenerateSettings settings{};
  std::vector<std::int64_t> end_tokens{};  ///< tokens of which any ends an answer, without being part of it
  /// Prompts go on where earlier ones, which began alike, have ended in the same slot: what the slot has of
  /// them is not computed again. Else an answer does not depend on what was answered before it, not even in
  /// its rounding.
  bool continues_sequences = false;
};

/// Why an answer ended.
enum class Ending : std::uint8_t {
  kEndToken,
  kMaxTokens,
  kPositions,  ///< the cache has no position left
  kStopped,    ///< the listener stopped it
};

struct Generation {
  std::size_t request = 0;  ///< index of the request
  std::vector<std::int64_t> tokens;
  Ending ending = Ending::kEndToken;
};

/// Called on the rank that has the prompt with each token of its answer. Returns whether that was the last.
using TokenListener = std::function<bool(std::size_t request, std::int64_t token)>;
/// Called on rank 0 when an answer is done, in the order in which they end.
using GenerationConsumer = std::function<void(const Generation& generation)>;

/// Called on every rank after each pass; once it returns true on one, no answer goes on, and those that have
/// begun are dropped.
using StopQuestion = std::function<bool()>;

/// Collective over the communicator of `forward`, with the same requests on every rank: prompt i belongs to
/// rank i modulo their number. Prompts must leave a position for an answer. `listener` and `stops` may be
/// empty. Returns whether all were answered.
bool generate(CachedForward& forward, std::span<const GenerationRequest> requests,
              const GenerationOptions& options, const TokenListener& listener,
              const GenerationConsumer& consumer, const StopQuestion& stops = {});

}  // namespace sluice
