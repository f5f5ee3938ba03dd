#include "adapter/peft_adapter.hpp"

#include "adapter/peft_match.hpp"
#include "adapter/peft_targets.hpp"
#include "base/error.hpp"
#include "io/file.hpp"

#include <system_error>

namespace sluice {
namespace {

/// Checks that the weights are in safetensors: PEFT's other formats are not read.
void require_weights(const std::filesystem::path& directory) {
  std::error_code error;
  if (std::filesystem::exists(directory / kPeftWeightsFile, error)) return;
  if (std::filesystem::exists(directory / "adapter_model.bin", error))
    fail({ExitCode::kBadData, "adapter.unreadable"},
         "{}: found adapter_model.bin, expected {}: what was pickled is not read. PEFT's save_pretrained "
         "writes safetensors",
         directory.string(), kPeftWeightsFile);
}

}  // namespace

PeftAdapter read_peft_adapter(const std::filesystem::path& directory, const ParameterManifest& manifest) {
  const PeftConfig config = read_peft_config(directory);
  require_weights(directory);
  PeftAdapter adapter;
  adapter.style.rslora = config.rslora;
  adapter.adapters.dropout = config.dropout;
  const InputFile file = InputFile::open(directory / kPeftWeightsFile);
  adapter.files.push_back({directory / kPeftWeightsFile, file.size_bytes()});
  const SafetensorsHeader header = read_safetensors_header(file);
  const PeftTargets targets(config, manifest);
  PeftMatch match(config, targets, manifest);
  for (const SafetensorsEntry& entry : header.entries) match.add(entry);
  match.finish(adapter.files.front().path.string(), adapter);
  return adapter;
}

}  // namespace sluice
