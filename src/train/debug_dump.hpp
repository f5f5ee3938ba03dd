// Writes the numbers of a run under the names of a fixture's reference.h5, so that both can be compared
// tensor by tensor.
#pragma once

#include "io/hdf5.hpp"
#include "manifest/manifest.hpp"
#include "shard/rank_sets.hpp"
#include "shard/shard_values.hpp"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace sluice {

class DebugDump {
 public:
  /// Rank 0 of all creates `file` (Error(kIo) if it exists). What the sets refer to and `manifest` must outlive the
  /// dump.
  DebugDump(const RankSets& sets, const ParameterManifest& manifest, const std::filesystem::path& file);

  /// Writes a number on rank 0; does nothing on other ranks.
  void write_scalar(const std::string& path, double value);
  void write_tensor(const std::string& path, const at::Tensor& tensor);

  /// Collective over the first set; does nothing on others. Writes every stored tensor that `values` has as
  /// `group`/NAME, in float32. Rank 0 holds one tensor at a time.
  void write_shards(const std::string& group, const ShardValues& values);

  /// Writes every trained float32 parameter as `group`/NAME. `values`: elements of
  /// UnitLayouts::trained_buffers.
  void write_whole(const std::string& group, const UnitLayouts& layouts, std::span<const float> values);

  /// Hands everything written so far to the kernel.
  void flush();

 private:
  void write_sharded_tensor(const std::string& path, int tensor, const ShardValues& values);

  Communicator& comm_;  ///< this rank's set
  bool is_first_;       ///< whether that is the first one
  const ParameterManifest& manifest_;
  std::optional<hdf5::File> file_;  ///< dump file, on rank 0 alone
};

}  // namespace sluice
