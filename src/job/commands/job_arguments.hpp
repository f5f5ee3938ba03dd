// What commands that are given a job file read from the command line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

struct JobArguments {
  std::filesystem::path file;
  std::vector<std::string> overrides;  ///< "table.key=value"
};

}  // namespace sluice
