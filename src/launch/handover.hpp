// What a job's ranks read on every host, brought by the launch to hosts that lack it, so that the launch's
// own host alone needs it.
//
// `sluice receive-files` runs on the other host. What the two say is JSON, a line each. The launch:
// {"directory", "files": [HandedFile, ...]}. The host: {"lacks": [numbers of files]}, or {"refused", "code"}.
// The launch: the bytes of these files, one behind the other. The host: {"lacks": []} when all of them lie on
// disk under their names, or {"refused", "code"}.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// A file that every host needs at the same path.
struct JobInput {
  std::filesystem::path path;  ///< absolute path
  /// Content for other hosts; nothing: the file's own content.
  std::optional<std::string> content{};
  /// Whether a host keeps its own file at this path, whatever its content.
  bool stays = false;
};

/// Description of a file in a handover, for both sides.
struct HandedFile {
  std::filesystem::path path;
  std::int64_t bytes = 0;
  std::int64_t changed = 0;  ///< time of the last change, in ns of the file system's clock
  std::string digest{};      ///< digest of the content, hexadecimal; "" for files of more than 64 MiB
  bool stays = false;        ///< whether a host keeps its own file at this path, whatever its content

  /// Description of an existing file. Errors as InputFile::open().
  [[nodiscard]] static HandedFile describe(const std::filesystem::path& path);
  /// Description of a file as other hosts get it. Errors as InputFile::open().
  [[nodiscard]] static HandedFile describe(const JobInput& input);

  [[nodiscard]] bool has_same_content(const HandedFile& other) const {
    return bytes == other.bytes && digest == other.digest;
  }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HandedFile, path, bytes, changed, digest, stays)

/// Gives a host the files that it lacks, under the same paths, and the present directory. A file that is
/// there is left alone if it is the same: it has the same length, and up to 64 MiB the same digest. One that
/// differs and is older than this host's is replaced, unless it is one that stays. Returns the bytes that were
/// sent. `on_wait` is called several times a second. Error(kBadConfig) if a newer file differs, Error(kIo) if
/// the host cannot write, Error(kInternal) if it takes nothing for half a minute or is lost.
std::int64_t hand_over(const std::string& host, const std::vector<std::string>& agent,
                       const std::vector<JobInput>& files, const std::function<void()>& on_wait);

/// Host's side, on stdin and stdout; returns the exit status of `sluice receive-files`.
[[nodiscard]] int receive_files();

}  // namespace sluice
