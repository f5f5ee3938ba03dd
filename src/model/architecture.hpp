// Description of a model (shape, manifest) from a model directory's config.json. No weights are read.
#pragma once

#include "base/dtype.hpp"
#include "manifest/adapter.hpp"
#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

#include <filesystem>
#include <span>
#include <string_view>

namespace sluice {

/// A family of models. To add one, write a file like qwen3.cpp and list it in architecture.cpp.
struct Architecture {
  std::string_view model_type;  ///< value of model_type in config.json
  ModelConfig (*read_config)(const ConfigReader& config);
  ParameterManifest (*describe)(const ModelConfig& config, DType dtype);
};

/// All supported architectures.
[[nodiscard]] std::span<const Architecture> architectures();

/// Description of a model: config, manifest and adapters.
struct ModelDescription {
  ModelConfig config;
  ParameterManifest manifest;     ///< manifest of the model, with its adapters' tensors if it has any
  AdapterDescription adapters{};  ///< adapters; none after reading config.json alone
};

/// Number of parameters that multiply a token: all but the experts that its routers do not choose.
[[nodiscard]] std::int64_t active_parameters(const ModelDescription& model);
/// Floating-point operations of one token in a training step, without recomputation: 2 for each active
/// parameter in forward, 2 for the gradient of its input from `lowest_layer` up (-1: everywhere), and 2 for
/// its own gradient if it is trained.
[[nodiscard]] double training_operations(const ModelDescription& model, int lowest_layer);

/// Describes the model of `directory`/config.json. Every tensor has element type `dtype`. Error(kBadData) if
/// the file is missing or broken, the architecture is unknown, or a setting would be computed wrongly.
[[nodiscard]] ModelDescription describe_model(const std::filesystem::path& directory, DType dtype);

/// Describes a model in the element type that config.json names for its published weights.
[[nodiscard]] ModelDescription describe_published_model(const std::filesystem::path& directory);

/// Describes a model from the text of a config.json; `name` is used in messages.
[[nodiscard]] ModelDescription describe_model_text(std::string_view config_json, const std::string& name,
                                                   DType dtype);

}  // namespace sluice
