#include "train/router_biases.hpp"

#include "base/error.hpp"
#include "base/range.hpp"
#include "device/copy.hpp"

#include <vector>

namespace sluice {
namespace {

void move_layer(std::span<const std::int64_t> tokens, float rate, std::span<float> biases) {
  const std::int64_t total = sum(tokens);
  for (std::size_t expert = 0; expert < biases.size(); ++expert) {
    // The expert's load, in the same parts as the total.
    const std::int64_t load = tokens[expert] * std::ssize(biases);
    if (load != total) biases[expert] += load < total ? rate : -rate;
  }
}

}  // namespace

void move_router_biases(const ShardArena& weights, const ParameterManifest& manifest,
                        std::span<const std::int64_t> expert_tokens, float rate) {
  // Biases come first among the tensors that ranks hold whole.
  std::int64_t elements = 0;
  for (const BufferPlace& buffer : weights.plan().layouts().buffers)
    if (!is_parameter(manifest[buffer.tensor].kind)) elements = buffer.offset + buffer.count;
  const std::int64_t bytes = elements * size_of(DType::kFloat32);
  SLUICE_ASSERT(std::ssize(expert_tokens) == elements,
                "found loads of {} experts, expected {}, as many as there are biases", expert_tokens.size(),
                elements);
  std::vector<float> biases(expert_tokens.size());
  copy_bytes(biases.data(), weights.buffers(), bytes);
  for (const BufferPlace& buffer : weights.plan().layouts().buffers) {
    if (buffer.offset >= elements) break;
    if (manifest[buffer.tensor].frozen) continue;
    const auto begin = static_cast<std::size_t>(buffer.offset),
               count = static_cast<std::size_t>(buffer.count);
    move_layer(expert_tokens.subspan(begin, count), rate, std::span(biases).subspan(begin, count));
  }
  copy_bytes(weights.buffers(), biases.data(), bytes);
}

}  // namespace sluice
