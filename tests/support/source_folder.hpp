#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace sluice {

/// Folder of the project's sources: what the environment's SLUICE_SOURCE_FOLDER names, else what the file
/// "source_folder" says that CMake writes into the build folder above this program. It is read when a test runs: a
/// definition of the compiler would make objects of one checkout useless to every other. Throws if neither is there.
inline std::filesystem::path source_folder() {
  if (const char* named = std::getenv("SLUICE_SOURCE_FOLDER"); named != nullptr) return named;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  for (std::filesystem::path folder = program.parent_path(); folder != folder.root_path();
       folder = folder.parent_path()) {
    std::ifstream file(folder / "source_folder");
    if (std::string line; std::getline(file, line)) return line;
  }
  throw std::runtime_error("no file source_folder above " + program.string() + ": set SLUICE_SOURCE_FOLDER");
}

/// Folder of the checkpoints and reference numbers that tests use.
inline std::filesystem::path fixture_folder() { return source_folder() / "tests/fixtures"; }

}  // namespace sluice
