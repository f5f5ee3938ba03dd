// Each number and switch that a family reads from config.json, changed alone: ranks that read it differently would
// compute different numbers, so their agreement or the structure hash has to name it.
#include "model/agreed_settings.hpp"
#include "model/family_test.hpp"
#include "model/manifest_builder.hpp"
#include "support/source_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// Keys that change no number of a pass, or paths of those that change none where they stand; and why they are read.
const std::map<std::string, std::string> kWithoutNumbers{
    {"max_position_embeddings", "longest sequence that jobs allow"},
    {"num_nextn_predict_layers", "layers that checkpoints may hold beside the model"},
    {"num_mtp_layers", "another spelling"},
    {"num_mtp_modules", "another spelling"},
    {"max_window_layers", "layers from there on have no window that is computed"},
    {"index_topk", "limit on the length of sequences"},
    {"index_topk_blocks", "limit on the length of sequences"},
    {"index_block_size", "limit on the length of sequences"},
    {"sparse_topk_blocks", "limit on the length of sequences"},
    {"sparse_block_size", "limit on the length of sequences"},
    {"sparse_attention_freq", "layers that have an indexer, which is not computed"},
    {"sparse_disable_index_value", "what such a layer may not have"},
    {"minimax_m3-tiny/layer_types/0", "layers that have an indexer"},
    {"minimax_m3-tiny/layer_types/1", "layers that have an indexer"},
    {"minimax_m3-tiny/layer_types/2", "layers that have an indexer"},
    {"llama_4_scaling_beta", "growth of queries behind that limit"},
    {"attention_dropout", "no block applies it"},
    {"mamba_chunk_size", "tokens that are computed at once"},
    {"granitemoehybrid-tiny/rope_parameters/rope_theta", "attention does not rotate"},
    {"rotary_dim", "share of a head that rope_parameters has too"},
    {"/partial_rotary_factor", "rope_parameters has it too"},
    {"/text_config/partial_rotary_factor", "rope_parameters has it too"},
    {"/text_config/tie_word_embeddings", "the wrapper's counts"},
    {"hidden_size_per_layer_input", "other values than 0 are refused"},
    {"num_kv_shared_layers", "other values than 0 are refused"},
    {"model_max_length", "another spelling"},
    {"cohere2_moe-tiny/rope_theta", "rope_parameters has it too"},
    {"cohere2_moe-rms-tiny/rope_theta", "rope_parameters has it too"},
    {"cohere2_moe-rms-tiny/layer_norm_eps", "rms_norm_eps counts in its place"},
    {"kimi_linear-tiny/head_dim", "latent attention has sizes of its own"},
    {"nemotron_h-latent-tiny/pad_token_id", "its row is one like others"},
    {"nemotron_h-tiny/pad_token_id", "its row is one like others"},
    {"gemma4-tiny/layer_types/1", "the last layer is always a full one"},
    {"step3p5-tiny/layer_types/3", "a layer for multi-token prediction"},
    {"step3p5-tiny/partial_rotary_factors/3", "a layer for multi-token prediction"},
    {"step3p5-tiny/rope_theta/3", "a layer for multi-token prediction"},
    {"step3p5-tiny/swiglu_limits/3", "a layer for multi-token prediction"},
    {"step3p5-tiny/swiglu_limits_shared/3", "a layer for multi-token prediction"},
    {"hunyuan_v1_moe-tiny/rope_parameters/factor", "alpha counts in its place"},
    {"mimo_v2_flash-tiny/sliding_window", "sliding_window_size counts"},
    {"qwen3-moe-tiny/intermediate_size", "width of dense layers, of which it has none"},
};

/// Paths of all numbers, switches and words of a config.
void add_leaves(const json& value, const json::json_pointer& path, std::vector<json::json_pointer>& out) {
  if (value.is_structured()) {
    for (const auto& [key, item] : value.items())
      add_leaves(item, value.is_array() ? path / std::stoul(key) : path / key, out);
  } else if (!value.is_null()) {
    out.push_back(path);
  }
}

/// Other values for a leaf, which a family may refuse; `words` are those beside it in a list.
std::vector<json> other_values(const json& value, const std::set<std::string>& words) {
  std::vector<json> out;
  if (value.is_boolean()) return {!value.get<bool>()};
  if (value.is_number_integer())
    for (const std::int64_t other : {value.get<std::int64_t>() + 1, value.get<std::int64_t>() - 1,
                                     2 * value.get<std::int64_t>(), value.get<std::int64_t>() / 2})
      out.emplace_back(other);
  else if (value.is_number())
    for (const double factor : {1.5, 0.5, 16.0, 0.01})
      out.emplace_back(factor * value.get<double>() + (value == 0.0 ? 0.5 : 0.0));
  for (const std::string& word : words)
    if (value != word) out.emplace_back(word);
  return out;
}

/// What ranks agree on, and the reader that knows what was asked for; no text where the config is refused.
struct AgreedReading {
  ConfigReader reader;
  std::optional<std::string> agreed{};
};

AgreedReading reading_of(const json& config) {
  AgreedReading out{ConfigReader::parse(config.dump(), "config.json")};
  const auto& family = *std::ranges::find(architectures(), config.at("model_type").get<std::string>(),
                                          &Architecture::model_type);
  try {
    const ModelConfig model = family.read_config(out.reader.with(Nulls::kRefused));
    std::string text = family.describe(model, DType::kBFloat16).structure_hash().hex();
    for (const Setting& setting : agreed_settings(model)) text += setting.key + "=" + setting.value + "\n";
    out.agreed = text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadData) << error.what();
  }
  return out;
}

/// The key that a leaf belongs to, and whether a reading asked for it.
std::pair<std::string, bool> key_of(ConfigReader table, const json& config, const json::json_pointer& leaf) {
  std::vector<std::string> keys;
  for (json::json_pointer at = leaf; !at.empty(); at = at.parent_pointer())
    if (!config.at(at.parent_pointer()).is_array()) keys.insert(keys.begin(), at.back());
  for (std::size_t depth = 0; depth + 1 < keys.size(); ++depth)
    table = table.object({keys[depth].c_str()}).value();
  return {keys.back(), !std::ranges::count(table.unasked_keys(), keys.back())};
}

/// All words of a config under a key.
void add_words(const json& value, const std::string& key, std::set<std::string>& out) {
  if (!value.is_structured()) return;
  for (const auto& [name, item] : value.items())
    if (name == key && item.is_string())
      out.insert(item);
    else
      add_words(item, key, out);
}

/// Directories of the models that have a reference, and of those whose published configs have other keys than these.
std::vector<std::string> known_models() {
  std::vector<std::string> names{"configs/gemma-4-26B-A4B", "configs/MiniMax-M3"};
  for (const auto& directory : std::filesystem::directory_iterator(fixture_folder()))
    if (std::filesystem::exists(directory.path() / "reference.h5"))
      names.push_back(directory.path().filename());
  std::ranges::sort(names);
  return names;
}

class EverySetting : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, EverySetting, testing::ValuesIn(known_models()));

TEST_P(EverySetting, that_a_family_reads_is_in_the_agreement_or_in_the_structure_hash) {
  json config = json::parse(std::ifstream(fixture_folder() / GetParam() / "config.json"));
  config.erase("quantization_config");
  const AgreedReading usual = reading_of(config);
  ASSERT_TRUE(usual.agreed);
  std::vector<json::json_pointer> leaves;
  add_leaves(config, json::json_pointer(), leaves);
  for (const json::json_pointer& leaf : leaves) {
    const auto [key, is_asked] = key_of(usual.reader, config, leaf);
    const std::string path = leaf.to_string();
    const bool is_exempt = kWithoutNumbers.contains(key) || kWithoutNumbers.contains(path) ||
                           kWithoutNumbers.contains(GetParam() + path) || key == "model_type";
    if (!is_asked || is_exempt || path.starts_with("/vision_config")) continue;
    std::set<std::string> words;
    if (config.at(leaf.parent_pointer()).is_array())
      for (const json& item : config.at(leaf.parent_pointer())) {
        if (item.is_string()) words.insert(item);
      }
    else if (config.at(leaf).is_string())
      add_words(config, key, words);
    std::size_t read_values = 0, told = 0;
    for (const json& value : other_values(config.at(leaf), words)) {
      json changed = config;
      changed[leaf] = value;
      const AgreedReading reading = reading_of(changed);
      read_values += reading.agreed ? 1 : 0;
      told += reading.agreed && reading.agreed != usual.agreed ? 1 : 0;
    }
    EXPECT_TRUE(read_values == 0 || told > 0) << path << " = " << config.at(leaf);
  }
}

/// What ranks agree on of a model's settings and tensors.
std::string agreed_of(const ModelConfig& config) {
  std::string text = describe_decoder(config, DType::kBFloat16).structure_hash().hex();
  for (const Setting& setting : agreed_settings(config)) text += setting.key + "=" + setting.value + "\n";
  return text;
}

void expect_all_agreed(const ModelConfig& usual,
                       std::span<const std::pair<const char*, void (*)(ModelConfig&)>> changes) {
  for (const auto& [name, change] : changes) {
    ModelConfig changed = usual;
    change(changed);
    EXPECT_NE(agreed_of(changed), agreed_of(usual)) << name;
  }
}

TEST(EverySwitch, of_the_blocks_that_gemma4_is_made_of_is_in_the_agreement_or_in_the_structure_hash) {
  const ModelConfig usual =
      describe_model(fixture_folder() / "configs/gemma-4-26B-A4B", DType::kBFloat16).config;
  const std::pair<const char*, void (*)(ModelConfig&)> changes[] = {
      {"heads of a layer", [](ModelConfig& model) { model.heads_by_layer[1].queries *= 2; }},
      {"key heads of a layer", [](ModelConfig& model) { model.heads_by_layer[1].keys_and_values *= 2; }},
      {"size of heads of a layer", [](ModelConfig& model) { model.heads_by_layer[1].size *= 2; }},
      {"values that are keys", [](ModelConfig& model) { model.heads_by_layer[5].values_are_keys = false; }},
      {"norm of values", [](ModelConfig& model) { model.value_norm = false; }},
      {"norm of queries and keys", [](ModelConfig& model) { model.query_key_norm = QueryKeyNorm::kNone; }},
      {"factor of scores", [](ModelConfig& model) { model.score_factor.reset(); }},
      {"window", [](ModelConfig& model) { model.sliding_window += 1; }},
      {"layers with a window", [](ModelConfig& model) { std::swap(model.attention[4], model.attention[5]); }},
      {"norms behind blocks", [](ModelConfig& model) { model.branch_norms = false; }},
      {"rounding of norms", [](ModelConfig& model) { model.unrounded_norms = false; }},
      {"constant of layers", [](ModelConfig& model) { model.layer_scalars = false; }},
      {"factor of embeddings", [](ModelConfig& model) { model.embedding_factor *= 2; }},
      {"rounding of that factor", [](ModelConfig& model) { model.rounded_embedding_factor = false; }},
      {"token without a gradient", [](ModelConfig& model) { model.padding_token = -1; }},
      {"one embedding and head", [](ModelConfig& model) { model.tie_word_embeddings = false; }},
      {"bound of logits", [](ModelConfig& model) { model.logit_cap = 0; }},
      {"function of gates", [](ModelConfig& model) { model.mlp_activation = MlpActivation::kSilu; }},
      {"dense MLP beside experts", [](ModelConfig& model) { model.layers[2] = MlpKind::kMoe; }},
      {"experts beside a dense MLP", [](ModelConfig& model) { model.layers[2] = MlpKind::kDense; }},
      {"width of dense MLPs", [](ModelConfig& model) { model.intermediate_size += 8; }},
      {"scaled input of the router", [](ModelConfig& model) { model.router.scales_input = false; }},
      {"factors of experts", [](ModelConfig& model) { model.router.has_expert_scales = false; }},
      {"sum of weights", [](ModelConfig& model) { model.router.normalize = false; }},
      {"chosen experts", [](ModelConfig& model) { model.experts_per_token -= 1; }},
      {"pairs that turn", [](ModelConfig& model) { model.rotary.turning_pairs += 1; }},
      {"theta of full layers", [](ModelConfig& model) { model.rotary.theta *= 2; }},
      {"theta of layers with a window", [](ModelConfig& model) { model.sliding_rotary->theta *= 2; }},
      {"epsilon of norms", [](ModelConfig& model) { model.rms_norm_eps *= 2; }}};
  expect_all_agreed(usual, changes);
}

TEST(EverySwitch, of_parallel_halves_and_their_norms_is_in_the_agreement_or_in_the_structure_hash) {
  const ModelConfig usual = describe_model(fixture_folder() / "cohere2_moe-tiny", DType::kBFloat16).config;
  const std::pair<const char*, void (*)(ModelConfig&)> changes[] = {
      {"parallel halves", [](ModelConfig& model) { model.parallel_halves = false; }},
      {"mean of norms", [](ModelConfig& model) { model.layer_norms = false; }},
      {"factor of experts", [](ModelConfig& model) { model.mixture_factor = 1; }},
      {"rotation of dense layers", [](ModelConfig& model) { model.dense_layers_rotate_as_sliding = false; }},
      {"order of rotated entries", [](ModelConfig& model) { model.sliding_rotary->interleaved = false; }},
      {"choice by logits", [](ModelConfig& model) { model.router.chooses_by_logits = false; }},
      {"function of scores", [](ModelConfig& model) { model.router.score = RouterScore::kSoftmax; }},
      {"divisor of logits", [](ModelConfig& model) { model.logit_divisor *= 2; }}};
  expect_all_agreed(usual, changes);
}

}  // namespace
}  // namespace sluice
