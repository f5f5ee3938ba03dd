#include "model/blocks/embedding_and_head.hpp"

#include "base/compute_sizes.hpp"
#include "base/dtype.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::blocks::embedding_and_head {

BlockTensor embedding_tensor(const ModelConfig& config) {
  return {kEmbedding, {config.vocab_size, config.hidden_size}, Role::kEmbedding};
}

BlockTensor head_tensor(const ModelConfig& config) {
  BlockTensor head{kHead, {config.vocab_size, config.hidden_size}, Role::kHead};
  if (config.tie_word_embeddings) head.tied_to = kEmbedding;
  return head;
}

std::vector<Setting> settings(const ModelConfig& config) {
  std::vector<Setting> out{{"pad_token_id", fmt::to_string(config.padding_token)}};
  const auto add = [&](const char* key, double factor) {
    if (factor != 1) out.push_back({key, fmt::to_string(factor)});
  };
  add("factor of embeddings", config.embedding_factor);
  if (config.rounded_embedding_factor)
    out.push_back({"rounding of that factor", "to the type of the weights"});
  add("factor of residual branches", config.residual_factor);
  add("further factor of experts", config.mixture_factor);
  if (config.parallel_halves) out.push_back({"halves of layers", "parallel"});
  add("divisor of logits", config.logit_divisor);
  if (config.logit_cap > 0) out.push_back({"bound of logits", fmt::to_string(config.logit_cap)});
  return out;
}

std::int64_t embedding_bytes(const ModelConfig& config, std::int64_t own_tokens, std::int64_t all_tokens,
                             std::int64_t element_bytes) {
  return (own_tokens + std::min(all_tokens, config.vocab_size)) * config.hidden_size * element_bytes;
}

BlockActivations head_activations(const ModelConfig& config) {
  // Counts logits that exist at once, the float32 gradient of a group of tokens, and with a bound on logits the
  // slopes of a tile in float32.
  const std::int64_t slopes =
      config.logit_cap > 0 ? 2 * std::max(kLossTokens, kKeptLogitTokens) * kLossTileRows : 0;
  return {.passed = 3 * config.hidden_size,
          .working_bytes =
              kKeptLogitBytes + (kLossTokens * config.hidden_size + slopes) * size_of(DType::kFloat32)};
}

std::int64_t device_tile_bytes() {
  return 2 * kLossTokens * kLossTileRowsOnDevice * size_of(DType::kFloat32);
}

std::int64_t distribution_bytes(std::int64_t tokens, bool on_device) {
  if (tokens == 0) return 0;
  // Copies of a tile in float32, one of them summed in float64; of each token an id, a value, and what they are
  // searched and counted with.
  const std::int64_t tiles =
      5 * size_of(DType::kFloat32) * (on_device ? kLossTileRowsOnDevice : kLossTileRows);
  const std::int64_t of_token = 12 * size_of(DType::kInt64) * tokens;
  return kLossTokens * (tiles + of_token);
}

}  // namespace sluice::blocks::embedding_and_head
