// Renamed keys. Job files, --set, a run's job.toml and the manifests of checkpoints may still have their
// earlier names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// A renamed key.
struct KeyAlias {
  std::string_view table;
  std::string_view earlier;  ///< earlier name of the key, which still works
  std::string_view key;      ///< name of the key in the schema
};

/// All renamed keys.
[[nodiscard]] std::span<const KeyAlias> key_aliases();

/// Name in the schema of a key of `table`, by its current or an earlier name; `key` itself if it was never
/// renamed.
[[nodiscard]] std::string_view current_key(std::string_view table, std::string_view key);

/// Name in the schema of "table.key".
[[nodiscard]] std::string current_name(std::string_view name);

/// Earlier name of "table.key", for digests in files of earlier versions; `name` itself if it was never
/// renamed.
[[nodiscard]] std::string earlier_name(std::string_view name);

}  // namespace sluice
