#include "model/blocks/rotary.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace sluice::blocks::rotary {
namespace {

std::string scaling_text(const RotaryConfig& rotary) {
  switch (rotary.scaling) {
    case RotaryScaling::kNone:
      return "none";
    case RotaryScaling::kLinear:
      return fmt::format("linear, factor {}", rotary.factor);
    case RotaryScaling::kYarn:
      return fmt::format("yarn, factor {}, blend from pair {} to {}, magnitude {}", rotary.factor,
                         rotary.blend_begin, rotary.blend_end, rotary.magnitude);
    case RotaryScaling::kLlama3:
      return fmt::format("llama3, factor {}, blend from {} to {} turns in {}", rotary.factor,
                         rotary.few_turns, rotary.many_turns, rotary.original_length);
  }
  return "?";
}

/// Names of a table and of its copy.
struct TableNames {
  std::string_view frequencies, original;
};
constexpr TableNames kOfAll{kFrequencies, kOriginalFrequencies};
constexpr TableNames kOfFull{"model.rotary_emb.full_attention_inv_freq",
                             "model.rotary_emb.full_attention_original_inv_freq"};
constexpr TableNames kOfSliding{"model.rotary_emb.sliding_attention_inv_freq",
                                "model.rotary_emb.sliding_attention_original_inv_freq"};

void add_tables(const RotaryConfig& rotary, const TableNames& names, std::vector<BlockTensor>& out) {
  if (rotary.dim == 0) return;
  for (const std::string_view name : {names.frequencies, names.original})
    out.push_back(
        {name, {rotary.dim / 2}, Role::kAttention, InitialValues::kByRole, TensorKind::kComputedBuffer});
}

/// Adds the settings of the layers that `layers` names: " of sliding_attention", or "" for all.
void add_settings(const RotaryConfig& rotary, std::string_view layers, std::vector<Setting>& out) {
  const auto add = [&](std::string_view key, std::string value) {
    out.push_back({fmt::format("{}{}", key, layers), std::move(value)});
  };
  if (rotary.dim == 0) return add("rope_parameters", "none");
  add("rope_theta", fmt::format("{}", rotary.theta));
  if (rotary.turning_pairs > 0) add("pairs that turn", fmt::to_string(rotary.turning_pairs));
  add("rope_scaling", scaling_text(rotary));
  add("rope_interleave", rotary.interleaved ? "true" : "false");
}

}  // namespace

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  std::vector<BlockTensor> out;
  const bool has_two = config.sliding_rotary && config.sliding_rotary->dim > 0 && config.rotary.dim > 0;
  add_tables(config.rotary, has_two ? kOfFull : kOfAll, out);
  if (config.sliding_rotary) add_tables(*config.sliding_rotary, has_two ? kOfSliding : kOfAll, out);
  return out;
}

std::vector<Setting> settings(const ModelConfig& config) {
  std::vector<Setting> out;
  add_settings(config.rotary, config.sliding_rotary ? " of full_attention" : "", out);
  if (config.sliding_rotary) add_settings(*config.sliding_rotary, " of sliding_attention", out);
  if (config.dense_layers_rotate_as_sliding)
    out.push_back({"rotation of dense layers", "as sliding_attention"});
  return out;
}

}  // namespace sluice::blocks::rotary
