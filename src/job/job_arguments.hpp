// Arguments of commands that take a job file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

struct JobArguments {
  std::filesystem::path file;
  std::vector<std::string> overrides;  ///< values of --set: "table.key=value"
};

}  // namespace sluice
