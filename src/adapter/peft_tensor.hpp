// A tensor of an adapter's file, and the places of its elements.
#pragma once

#include "base/range.hpp"
#include "io/safetensors.hpp"
#include "manifest/adapter.hpp"
#include "manifest/manifest.hpp"
#include "shard/moves.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice {

/// Consecutive elements of a file's tensor, and the elements of one tensor of an adapter that they are.
struct PeftPart {
  std::string tensor;      ///< name of the adapter's tensor, one of adapter_names()
  std::int64_t begin = 0;  ///< first element, counted in the file's tensor
  FileRange range;         ///< elements of the adapter's tensor; its index depends on the manifest

  [[nodiscard]] std::int64_t end() const { return begin + range.count; }
};

struct PeftTensor {
  SafetensorsEntry entry;
  std::vector<PeftPart> parts;  ///< parts of the tensor, one after the other
  int file = 0;                 ///< index of the file in PeftAdapter::files
};

/// Parts of a weight's lora_A [experts x rank, in]: one tensor in its own order.
[[nodiscard]] std::vector<PeftPart> parts_of_a(const ParameterManifest& manifest,
                                               const AdaptableWeight& weight, std::int64_t rank);
/// Parts of a weight's lora_B [out, rank x experts]: rows for each tensor of which the weight is joined;
/// experts are the fastest dimension.
[[nodiscard]] std::vector<PeftPart> parts_of_b(const ParameterManifest& manifest,
                                               const AdaptableWeight& weight, std::int64_t rank);

/// Calls `visit` with all elements of a file's tensor, in order, at most `room` at a time.
void for_each_chunk(const PeftTensor& tensor, std::int64_t room, const std::function<void(Range)>& visit);

/// Calls `visit` with the moves that make up what `rank` owns of elements `file` of a file's tensor, counted
/// in all of it. `manifest` has the adapters, and is the one of `shards`. Error(kInternal) for a part that
/// its tensor has no room for.
void for_each_move(const PeftTensor& tensor, const ParameterManifest& manifest, const ShardPlan& shards,
                   int rank, Range file, const std::function<void(const Move&)>& visit);

}  // namespace sluice
