// Companion files: those beside a model's weights that belong to any checkpoint of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// A file that goes along with the weights.
struct CompanionFile {
  std::filesystem::path path;  ///< path of the file
  std::filesystem::path name;  ///< path relative to the model's directory, which a copy keeps
};

/// Companion files of a directory, and those that a copy does without.
struct Companions {
  std::vector<CompanionFile> files;      ///< files, ascending by name
  std::vector<std::string> left_behind;  ///< names of files and folders that a user may miss, ascending
};

/// The files of a model directory but weights in any format, their indexes, what is hidden or half written,
/// the manifest of a saved step, and files of more than 64 MiB: configuration, tokenizer, processors, code,
/// license. Of folders those that hold chat templates (*.jinja) with these. Nothing for a directory that is
/// missing.
[[nodiscard]] Companions companion_files(const std::filesystem::path& directory);

/// Tells in the log what is left behind, if anything is.
void log_left_behind(const Companions& companions, const std::filesystem::path& directory);

/// How the weights are stored that files are copied to.
enum class WeightStorage : std::uint8_t { kPlain, kAsConfigSays };

/// Copies files into a directory of weights under their names, to disk; config.json without its
/// quantization_config where weights are plain. Error(kBadData) if one is missing.
void copy_files(std::span<const CompanionFile> files, const std::filesystem::path& directory,
                WeightStorage storage = WeightStorage::kPlain);

}  // namespace sluice
