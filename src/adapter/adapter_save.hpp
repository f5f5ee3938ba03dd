// Saves an adapter as a directory that PEFT opens.
#pragma once

#include "adapter/peft_adapter.hpp"
#include "base/bytes.hpp"
#include "comm/communicator.hpp"
#include "manifest/adapter.hpp"
#include "manifest/manifest.hpp"
#include "shard/shard_values.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace sluice {

/// Options for saving an adapter: further keys of adapter_config.json.
struct AdapterSaveOptions {
  PeftStyle style;
  std::string base_model;  ///< value of base_model_name_or_path
  std::int64_t chunk_bytes = 8 * kMiB;
};

/// Collective over `comm`. Writes `target` in the form of PEFT 0.20 and later, in float32: it appears
/// complete or not at all, under another name if `target` is taken (IfTaken::kNextName). `values` are this
/// rank's shards of a plan whose manifest has `adapters`. Rank 0 writes what the others send, in pieces of
/// `chunk_bytes`. Returns, on rank 0, the directory. If one rank fails, every rank throws its error and
/// nothing is left behind.
std::filesystem::path save_adapter(Communicator& comm, const AdapterDescription& adapters,
                                   const ParameterManifest& manifest, const ShardValues& values,
                                   const std::filesystem::path& target, const AdapterSaveOptions& options);

/// Saves an adapter from this process alone, which has all values, those of a plan of one rank. Error(kUsage)
/// if `target` exists.
void save_adapter(const AdapterDescription& adapters, const ParameterManifest& manifest,
                  const ShardValues& values, const std::filesystem::path& target,
                  const AdapterSaveOptions& options);

}  // namespace sluice
