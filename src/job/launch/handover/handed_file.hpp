// Description of a file in a handover, for both sides.
#pragma once

#include "job/launch/handover/job_inputs.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>

namespace sluice {

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

}  // namespace sluice
