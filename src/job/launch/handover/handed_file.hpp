// A file of a handover as both of its sides describe it.
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
  std::int64_t changed = 0;  ///< time of the last change, ns of the file system's clock
  std::string digest{};      ///< digest of the content, hexadecimal; "" of one of more than 64 MiB
  bool stays = false;        ///< whether a host that has a file there keeps it, whatever is in it

  /// The file that is there. Errors as InputFile::open().
  [[nodiscard]] static HandedFile describe(const std::filesystem::path& path);
  /// The file as other hosts get it. Errors as InputFile::open().
  [[nodiscard]] static HandedFile describe(const JobInput& input);

  [[nodiscard]] bool has_same_content(const HandedFile& other) const {
    return bytes == other.bytes && digest == other.digest;
  }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HandedFile, path, bytes, changed, digest, stays)

}  // namespace sluice
