// Keys that have been renamed. Job files, --set, a run's job.toml and the manifests of checkpoints may still
// spell them as they were.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// A renamed key.
struct KeyAlias {
  std::string_view table;
  std::string_view earlier;  ///< the key's earlier spelling, which still works
  std::string_view key;      ///< the key's spelling in the schema
};

/// All renamed keys.
[[nodiscard]] std::span<const KeyAlias> key_aliases();

/// The schema's spelling of a key of `table`; `key` itself if it has never been renamed.
[[nodiscard]] std::string_view current_key(std::string_view table, std::string_view key);

/// The schema's spelling of "table.key".
[[nodiscard]] std::string current_name(std::string_view name);

/// The earlier spelling of "table.key", for digests that files of earlier versions hold; `name` itself if
/// there is none.
[[nodiscard]] std::string earlier_name(std::string_view name);

}  // namespace sluice
