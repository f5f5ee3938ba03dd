#include "model/agreed_settings.hpp"

#include "model/blocks/embedding_and_head.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "model/blocks/norms.hpp"
#include "model/blocks/rotary.hpp"

#include <fmt/format.h>

#include <string>

namespace sluice {

std::vector<Setting> agreed_settings(const ModelConfig& config) {
  const LayerBlock& full_attention = block_of(AttentionKind::kFull);
  std::vector<Setting> out{{"model_type", config.model_type},
                           {"dtype", std::string(name_of(config.published_dtype))}};
  const auto add = [&](const std::vector<Setting>& settings) {
    out.insert(out.end(), settings.begin(), settings.end());
  };
  add(full_attention.settings(config));
  add(blocks::embedding_and_head::settings(config));
  add(blocks::norms::settings(config));
  add(blocks::rotary::settings(config));
  out.push_back({"initializer_range", fmt::format("{}", config.initializer_range)});
  for (const LayerBlock& block : layer_blocks())
    if (&block != &full_attention) add(block.settings(config));
  return out;
}

}  // namespace sluice
