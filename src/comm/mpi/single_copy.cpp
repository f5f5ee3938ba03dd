#include "comm/mpi/single_copy.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace sluice {
namespace {

/// Files of settings that Open MPI reads: those that are named, or else the user's and the system's.
std::vector<std::string> setting_files() {
  std::vector<std::string> files;
  if (const char* const named = std::getenv("OMPI_MCA_mca_base_param_files")) {
    const std::string_view list(named);
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find_first_of(":,", begin), list.size());
      files.emplace_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
    return files;
  }
  if (const char* const home = std::getenv("HOME"))
    files.push_back(std::string(home) + "/.openmpi/mca-params.conf");
  for (const char* const folder : {"/etc/openmpi", "/etc", "/usr/local/etc"})
    files.push_back(std::string(folder) + "/openmpi-mca-params.conf");
  return files;
}

/// Whether a line "name = value" sets `name`.
bool sets(std::string_view line, std::string_view name) {
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == line.npos || !line.substr(begin).starts_with(name)) return false;
  const std::string_view rest = line.substr(begin + name.size());
  const std::size_t sign = rest.find_first_not_of(" \t");
  return sign != rest.npos && rest[sign] == '=';
}

}  // namespace

std::optional<LibrarySetting> setting_without_single_copy(std::string_view library) {
  constexpr std::string_view kName = "Open MPI v";
  if (!library.starts_with(kName)) return std::nullopt;
  const std::optional<std::int64_t> version = leading_number(library.substr(kName.size()));
  if (!version) return std::nullopt;
  if (*version < 5) return LibrarySetting{"btl_vader_single_copy_mechanism", "none"};
  return LibrarySetting{"smsc", "^cma"};
}

bool is_set_for_library(const std::string& name) {
  if (std::getenv(LibrarySetting{name, ""}.variable().c_str()) != nullptr) return true;
  for (const std::string& file : setting_files()) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);)
      if (sets(line, name)) return true;
  }
  return false;
}

}  // namespace sluice
