#include "model/wrapped_config.hpp"

#include "model/common_config.hpp"
#include "model/quantization_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace sluice {

ModelConfig read_wrapped_config(const ConfigReader& config, const std::vector<std::string>& text_types,
                                TiedBy tied, ModelConfig (*read)(const ConfigReader& config)) {
  const bool is_quantized = read_quantization(config.with(Nulls::kAbsent)).has_value();
  const std::optional<ConfigReader> text = config.object({"text_config"});
  if (!text) config.refuse("text_config", "an object that describes the language model");
  if (std::ranges::find(text_types, text->text({"model_type"}, text_types.front())) == text_types.end())
    text->refuse("model_type", fmt::format("'{}'", fmt::join(text_types, "' or '")));
  ModelConfig model = read(*text);
  model.quantized = model.quantized || is_quantized;
  if (tied != TiedBy::kText) {
    constexpr const char* kTied = "tie_word_embeddings";
    const bool by_text =
        std::exchange(model.tie_word_embeddings, config.boolean({kTied}, model.tie_word_embeddings));
    if (tied == TiedBy::kBoth && text->has(kTied) && by_text != model.tie_word_embeddings)
      config.refuse(kTied, fmt::format("{}, as in text_config", by_text));
  }
  if (!text->has("dtype") && !text->has("torch_dtype")) model.published_dtype = read_published_dtype(config);
  return model;
}

}  // namespace sluice
