// The mechanism by which Open MPI moves large messages between ranks of one machine in a single copy: the
// receiver reads the sender's memory. Where that is forbidden, as in many containers, Open MPI prints a line for
// each message and copies it in another way.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// A setting of Open MPI (an MCA parameter).
struct LibrarySetting {
  std::string name;
  std::string value;

  /// Environment variable that holds the setting.
  [[nodiscard]] std::string variable() const { return "OMPI_MCA_" + name; }
};

/// Setting without that mechanism, by the library's name and version as MpiEnvironment::library_version() has
/// them; nothing for other libraries.
[[nodiscard]] std::optional<LibrarySetting> setting_without_single_copy(std::string_view library);

/// Whether the environment, or a file of settings that Open MPI reads, has a setting of this name: what a user
/// has set stays.
[[nodiscard]] bool is_set_for_library(const std::string& name);

}  // namespace sluice
