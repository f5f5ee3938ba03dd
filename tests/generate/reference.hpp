// What transformers generates from the models of tests/fixtures: generation.h5, written by make_generation.py
// there.
#pragma once

#include "io/hdf5.hpp"
#include "support/source_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sluice::test {

inline constexpr std::size_t kPrompt = 8;  ///< tokens of a prompt, see make_generation.py
/// By which a logit may differ from that of transformers.
inline constexpr double kLogitTolerance = 2e-4;

inline std::filesystem::path fixture(const std::string& name) { return fixture_folder() / name; }

/// What transformers has generated.
struct GenerationReference {
  explicit GenerationReference(const std::string& model) {
    const hdf5::File file = hdf5::File::open(fixture("generation.h5"));
    tokens = file.dataset(model + "/tokens").read<std::int64_t>();
    logits = file.dataset(model + "/logits").read<float>();
    vocabulary = std::ssize(logits) / count();
  }
  [[nodiscard]] std::int64_t count() const { return std::ssize(tokens) - static_cast<std::int64_t>(kPrompt); }
  [[nodiscard]] std::vector<std::int64_t> prompt() const {
    return {tokens.begin(), tokens.begin() + kPrompt};
  }
  /// Of the i-th token behind the prompt.
  [[nodiscard]] std::span<const float> row(std::int64_t i) const {
    return std::span(logits).subspan(static_cast<std::size_t>(i * vocabulary),
                                     static_cast<std::size_t>(vocabulary));
  }
  /// Of its best logit over the next one.
  [[nodiscard]] float lead(std::int64_t i) const {
    std::vector<float> best(2);
    std::ranges::partial_sort_copy(row(i), best, std::greater<>());
    return best[0] - best[1];
  }

  std::vector<std::int64_t> tokens;
  std::vector<float> logits;
  std::int64_t vocabulary = 0;
};

/// The models that it has.
inline auto generated_models() {
  return testing::Values(
      "bailing_moe_v2-tiny", "deepseek_v2-tiny", "deepseek_v3-tiny", "dots1-tiny", "ernie4_5_moe-tiny",
      "glm4_moe-tiny", "glm4_moe_lite-tiny", "gpt_oss-tiny-mxfp4", "hy_v3-tiny", "minimax_m2-tiny",
      "mixtral-tiny", "olmoe-tiny", "qwen2_moe-tiny", "qwen3-moe-mixed", "qwen3-moe-tiny", "qwen3-tiny-tied",
      "qwen3-tiny-yarn", "qwen3_next-tiny", "qwen3_5-moe-tiny", "qwen3_5-moe-vlm", "qwen3_5-tiny",
      "solar_open-tiny", "mellum-tiny", "exaone_moe-tiny", "lfm2_moe-tiny", "granitemoe-tiny", "afmoe-tiny",
      "laguna-tiny", "bailing_hybrid-tiny", "granitemoehybrid-tiny", "gemma4-tiny", "nemotron_h-tiny",
      "nemotron_h-latent-tiny", "kimi_linear-tiny", "hunyuan_v1_moe-tiny", "cohere2_moe-tiny",
      "cohere2_moe-rms-tiny", "mimo_v2_flash-tiny", "minimax_m3-tiny", "step3p5-tiny");
}
inline std::string name_of_model(const testing::TestParamInfo<std::string>& instance) {
  std::string name = instance.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace sluice::test
