// One tensor of an adapter's file, and where its elements belong.
#pragma once

#include "adapter/element_map.hpp"
#include "base/range.hpp"
#include "io/safetensors.hpp"
#include "manifest/adapter.hpp"
#include "manifest/manifest.hpp"
#include "shard/shard_plan.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sluice {

/// Consecutive elements of a file's tensor, and which elements of one tensor of an adapter they are.
struct PeftPart {
  std::string tensor;      ///< one of adapter_names()
  std::int64_t begin = 0;  ///< number of the first of them in the file's tensor
  ElementMap map;

  [[nodiscard]] std::int64_t end() const { return begin + map.count(); }
};

struct PeftTensor {
  SafetensorsEntry entry;
  std::vector<PeftPart> parts;  ///< one after the other: all of the entry
  int file = 0;                 ///< index in PeftAdapter::files
};

/// What the lora_A [experts x rank, in] of a weight holds: one tensor in its own order.
[[nodiscard]] std::vector<PeftPart> parts_of_a(const ParameterManifest& manifest,
                                               const AdaptableWeight& weight, std::int64_t rank);
/// What the lora_B [out, rank x experts] of a weight holds: of each tensor that the weight is joined from its rows; of
/// experts the fastest dimension.
[[nodiscard]] std::vector<PeftPart> parts_of_b(const ParameterManifest& manifest,
                                               const AdaptableWeight& weight, std::int64_t rank);

/// Calls `visit` with all elements of the file's tensor, at most `room` of them at a time, in order.
void for_each_piece(const PeftTensor& tensor, std::int64_t room, const std::function<void(Range)>& visit);

/// What a rank owns of what a file's tensor holds.
class OwnedParts {
 public:
  /// `manifest` has the adapters, and is the one of `shards`. References must outlive this. Error(kInternal) for a part that
  /// its tensor has no room for.
  OwnedParts(const PeftTensor& tensor, const ParameterManifest& manifest, const ShardPlan& shards, int rank);

  /// As OwnedElements::for_each_run(), in elements of the file's tensor.
  void for_each_run(Range file, const std::function<void(const MappedRun&)>& visit) const;

 private:
  const PeftTensor& tensor_;
  std::map<std::string, OwnedElements> owned_;  ///< owned elements of each tensor of the adapter, by its name
};

}  // namespace sluice
