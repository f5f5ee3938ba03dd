// Content of a checkpoint, independent of its layout and files, and the differences between two.
#pragma once

#include "verify/checkpoint_digest.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace sluice {

/// Digests of all tensors of a checkpoint.
struct CheckpointContent {
  std::vector<PublishedDigest> tensors;  ///< digest of each tensor, sorted by name
  bool tied = false;                     ///< whether config.json ties lm_head.weight to the embedding

  /// Sum of the identities of the tensors that training loads, without a vision tower and tied copies. Equal
  /// for every layout and sharding.
  [[nodiscard]] Digest digest() const;
  [[nodiscard]] const PublishedDigest* find(const std::string& name) const;
};

/// Reads every byte of a directory's tensors; of a model whose `manifest` is known, directories in which its
/// family publishes it in another form have the same content. Error(kBadData) if two entries of the index are
/// the same tensor in different spellings, or a file was changed since the index was read. `progress` may be
/// empty.
[[nodiscard]] CheckpointContent read_content(const CheckpointIndex& index,
                                             const std::filesystem::path& directory,
                                             const ParameterManifest* manifest,
                                             const std::function<void(std::int64_t done_bytes)>& progress);

/// Differences between two contents, `here` and `there`.
struct ContentComparison {
  struct Difference {
    std::string name;
    std::string here;  ///< element type, shape and digest of the tensor
    std::string there;
  };
  std::vector<Difference> different;
  std::vector<std::string> only_here;
  std::vector<std::string> only_there;
  /// Tensors that only one side has and no text model needs: vision tower, multi-token prediction, tied
  /// copies.
  std::vector<std::string> spare_here;
  std::vector<std::string> spare_there;

  [[nodiscard]] bool is_equal() const { return different.empty() && only_here.empty() && only_there.empty(); }
};
[[nodiscard]] ContentComparison compare(const CheckpointContent& here, const CheckpointContent& there);

}  // namespace sluice
