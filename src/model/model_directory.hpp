// What a path names that is given for a model's directory.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace sluice {

/// Files of an adapter's directory. The first one tells it from a model's.
inline constexpr std::string_view kPeftConfigFile = "adapter_config.json";
inline constexpr std::string_view kPeftWeightsFile = "adapter_model.safetensors";

/// What a path is that leads to no published model, with what to do about it: an adapter, alone or in a folder
/// of its name; GGUF files; another file; a folder of the hub's cache; nothing at all, which may be a model's
/// name on the hub. "" for other directories. Looks at names alone, and at a file's first bytes.
[[nodiscard]] std::string why_no_model(const std::filesystem::path& path);

/// Error(kBadData) with why_no_model() unless it is "", or the directory has a config.json.
void require_model_directory(const std::filesystem::path& path);

}  // namespace sluice
