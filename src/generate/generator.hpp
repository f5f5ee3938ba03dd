// Generates answers to prompts: each rank has its share of them, some at a time, begun and ended
// independently.
#pragma once

#include "generate/cached_forward.hpp"
#include "generate/token_sampler.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sluice {

struct GenerationRequest {
  std::int64_t number = 0;           ///< number of the prompt, which keys the random draws of its answer
  std::vector<std::int64_t> prompt;  ///< token ids of the prompt, at least one
};

/// Functions that every rank calls before and after each pass, with the number of the pass in its
/// CachedForward, from 1 on.
struct PassListener {
  std::function<void(std::int64_t pass)> before, after;
};

struct GenerationOptions {
  GenerateSettings settings{};
  std::vector<std::int64_t> end_tokens{};  ///< tokens that end an answer, without being part of it
  /// Whether a prompt continues an earlier sequence in its slot that began alike, without computing the
  /// common part again. Otherwise no answer depends on earlier ones, not even in its rounding.
  bool continues_sequences = false;
  PassListener passes{};  ///< empty functions, or both
};

/// Why an answer ended.
enum class Ending : std::uint8_t {
  kEndToken,
  kMaxTokens,
  kPositions,  ///< no position is left in the cache
  kStopped,    ///< the listener stopped the answer
};

struct Generation {
  std::size_t request = 0;  ///< index of the request
  std::vector<std::int64_t> tokens;
  Ending ending = Ending::kEndToken;
};

/// Function called with each token of an answer, on the rank that has the prompt. Returns whether the answer
/// ends with it.
using TokenListener = std::function<bool(std::size_t request, std::int64_t token)>;
/// Function called on rank 0 with each complete answer, in the order in which they end.
using GenerationConsumer = std::function<void(const Generation& generation)>;

/// Function called on every rank after each pass; once it returns true on any rank, answers that have begun
/// are dropped, and none begins.
using StopQuestion = std::function<bool()>;

/// Collective over the communicator of `forward`. Answers `requests`, which are the same on every rank:
/// prompt i belongs to rank i modulo the number of ranks. Prompts must leave a position for an answer.
/// `listener` and `stops` may be empty. Returns whether all were answered.
bool generate(CachedForward& forward, std::span<const GenerationRequest> requests,
              const GenerationOptions& options, const TokenListener& listener,
              const GenerationConsumer& consumer, const StopQuestion& stops = {});

}  // namespace sluice
