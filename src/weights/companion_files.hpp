// Companion files: files beside a model's weights that belong to any checkpoint of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// How the weights are stored to whose directory companion files are copied.
enum class WeightStorage : std::uint8_t { kPlain, kAsConfigSays };

/// A file that is copied along with the weights.
struct CompanionFile {
  std::filesystem::path path;  ///< path of the file
  std::filesystem::path name;  ///< path relative to the model's directory, which a copy keeps
  WeightStorage storage = WeightStorage::
      kAsConfigSays;  ///< form of the weights that copies announce: none of quantised ones with kPlain
};

/// Companion files of a directory, and files that are not copied.
struct Companions {
  std::vector<CompanionFile> files;  ///< files, ascending by name
  /// Names of files and folders that are not copied and that a user may miss, ascending.
  std::vector<std::string> left_behind;
};

/// Companion files of a model directory: configuration, tokenizer, processors, code, license; of folders,
/// only chat templates (*.jinja). Left out are weights in any format and their indexes, hidden and unfinished
/// files, the manifest of a checkpoint, files of more than 64 MiB, and beside plain weights the files by which
/// servers take weights for quantised ones (hf_quant_config.json and others). Empty for a missing directory.
[[nodiscard]] Companions companion_files(const std::filesystem::path& directory,
                                         WeightStorage storage = WeightStorage::kPlain);

/// Logs which files are left behind, if any.
void log_left_behind(const Companions& companions, const std::filesystem::path& directory);

/// Copies files into a directory of weights under their names, and syncs them; config.json without its
/// quantization_config if weights are plain. Error(kBadData) if a file is missing.
void copy_files(std::span<const CompanionFile> files, const std::filesystem::path& directory);

}  // namespace sluice
