// Published models by what is known of them: each from a directory that holds its config.json and nothing
// else.
#include "model/family_test.hpp"
#include "support/source_folder.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace test;

struct Published {
  const char* directory;
  const char* model_type;
  PublishedSize size;  ///< numbers of parameters and buffers, and tensors with experts one by one
  double billions;     ///< active parameters per token, to two digits
  bool balances;       ///< trained with a load-balancing loss, as transformers has it for the family

  friend std::ostream& operator<<(std::ostream& out, const Published& model) {
    return out << model.directory;
  }
};

constexpr Published kPublished[] = {
    {"DeepSeek-V2", "deepseek_v2", {235'741'434'880, 29'102}, 21.38, false},
    {"DeepSeek-V2-Lite", "deepseek_v2", {15'706'484'224, 5'291}, 2.66, false},
    {"DeepSeek-V3", "deepseek_v3", {671'026'419'200, 45'395}, 37.55, false},
    {"Kimi-K2", "kimi_k2", {1'026'408'232'448, 69'975}, 32.86, false},
    {"Moonlight-16B-A3B", "deepseek_v3", {15'960'110'208, 5'317}, 2.91, false},
    {"GLM-4.7-Flash", "glm4_moe_lite", {29'943'393'920, 9'491}, 3.90, false},
    {"GLM-4.5-Air", "glm4_moe", {106'852'251'264, 17'925}, 13.42, false},
    {"GLM-4.5", "glm4_moe", {352'797'829'024, 44'189}, 33.63, false},
    {"gpt-oss-20b", "gpt_oss", {20'914'757'184, 411}, 4.19, true},
    {"gpt-oss-120b", "gpt_oss", {116'829'156'672, 615}, 5.71, true},
    {"Qwen3-Next-80B-A3B", "qwen3_next", {79'674'391'296, 74'391}, 3.87, true},
    {"MiniMax-M2", "minimax_m2", {228'689'764'864, 48'239}, 11.03, false},
    // Sizes as its release is quoted, counted by transformers without its indexers, of 224'147'712 parameters.
    {"MiniMax-M3", "minimax_m3_vl", {425'950'425'216, 22'665}, 25.74, false},
    // Sizes as its release is quoted, counted by the class of the language model of Step 3.7.
    {"Step-3.5-Flash", "step3p5", {196'956'130'368, 753}, 11.99, false},
    {"Ling-mini-2.0", "bailing_moe_v2", {16'255'643'392, 14'813}, 1.43, false},
    {"Hy3", "hy_v3", {295'033'543'488, 46'545}, 20.68, false},
    {"ERNIE-4.5-21B-A3B", "ernie4_5_moe", {21'825'437'888, 5'492}, 3.35, false},
    {"ERNIE-4.5-300B-A47B", "ernie4_5_moe", {299'484'163'264, 10'230}, 47.93, false},
    {"Solar-Open-100B",
     "solar_open",
     {102'651'799'552, 18'963},
     12.05,
     false},  // transformers' class defaults
    // The sizes of transformers' class defaults, and those of a report: both counted by transformers.
    {"Mellum2-12B-A2.5B", "mellum", {12'149'923'072, 5'631}, 2.44, true},
    {"K-EXAONE-236B-A23B", "exaone_moe", {236'571'156'352, 18'673}, 23.67, false},
    {"LFM2-8B-A1B",
     "lfm2_moe",
     {8'339'930'560, 2'302},
     1.56,
     false},  // as its sizes are known, counted by transformers
    {"Granite-3.0-1B-A400M", "granitemoe", {1'334'628'352, 218}, 0.43, true},
    // As its sizes are known, counted by transformers.
    {"Granite-4.0-H-Tiny", "granitemoehybrid", {6'939'037'248, 586}, 1.47, true},
    // Sizes of its report, counted by transformers.
    {"Trinity-Mini", "afmoe", {26'123'974'400, 12'031}, 3.47, false},
    // The sizes of transformers' class defaults, counted by it.
    {"Laguna-XS.2", "laguna", {33'189'975'808, 30'513}, 2.76, false},
    // Sizes as its release is quoted, counted by transformers.
    {"Ling-3.0-tiny", "bailing_hybrid", {7'893'392'800, 9'283}, 1.38, false},
    // As its sizes are known, counted by transformers: parameters, and a constant for each of 30 layers.
    {"gemma-4-26B-A4B", "gemma4", {25'233'141'790, 657}, 3.82, false},
    // The config of its release, counted by transformers.
    {"Nemotron-3-Nano-30B-A3B", "nemotron_h", {31'577'940'288, 6'243}, 3.58, false},
    // The config of its release, counted by transformers: parameters, and a bias for each of 26 x 256 experts.
    {"Kimi-Linear-48B-A3B", "kimi_linear", {49'122'681'728, 20'493}, 3.48, false},
    // The sizes of its release, counted by transformers.
    {"Hunyuan-A13B", "hunyuan_v1_moe", {80'393'183'232, 6'530}, 12.75, false},
    // Its sizes as others who read it have them, counted by transformers.
    {"North-Mini-Code-1.0", "cohere2_moe", {30'484'303'872, 18'730}, 3.31, false},
    // Sizes as public code quotes them, counted by transformers: parameters, and a bias for each of 47 x 256 experts.
    {"MiMo-V2-Flash", "mimo_v2_flash", {308'778'780'864, 36'523}, 15.45, false},
    {"dots.llm1", "dots1", {142'774'381'696, 24'231}, 14.02, false},
    {"Qwen1.5-MoE-A2.7B", "qwen2_moe", {14'315'784'192, 4'659}, 2.69, true},
    {"OLMoE-1B-7B", "olmoe", {6'919'161'856, 3'219}, 1.28, true},
    {"Mistral-Small-4", "mistral4", {118'972'826'624, 14'295}, 6.63, false},
    {"Mixtral-8x7B", "mixtral", {46'702'792'704, 995}, 12.88, true},
    {"Qwen3-30B-A3B", "qwen3_moe", {30'532'122'624, 18'867}, 3.35, true},
    {"Qwen3.5-35B-A3B", "qwen3_5_moe", {34'660'610'688, 31'333}, 3.45, true},
};

class FamilyModel : public testing::TestWithParam<Published> {};
INSTANTIATE_TEST_SUITE_P(Models, FamilyModel, testing::ValuesIn(kPublished));

ModelDescription described_directory(const std::string& name) {
  return describe_model(fixture_folder() / "configs" / name, DType::kBFloat16);
}

TEST_P(FamilyModel, has_its_numbers_and_tensors_and_a_token_meets_so_many) {
  const ModelDescription model = described_directory(GetParam().directory);
  EXPECT_EQ(model.config.model_type, GetParam().model_type);
  EXPECT_EQ(published_size(model), GetParam().size);
  EXPECT_EQ(std::round(static_cast<double>(active_parameters(model)) / 1e7) / 100, GetParam().billions);
  EXPECT_EQ(model.config.router.has_balancing_loss(), GetParam().balances);
  EXPECT_EQ(model.config.unknown_keys, std::vector<std::string>{});
}

/// What the guide's table of families says of each model_type under "balance".
std::map<std::string, std::string> balance_in_guide() {
  std::map<std::string, std::string> found;
  const std::regex row(R"(\| (`.*`.*) \| (loss|bias|bias \(loss\)|-) \| .* \|)"), name("`(\\w+)`");
  std::ifstream guide(source_folder() / "configs/guide/models.md");
  for (std::string line; std::getline(guide, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row)) continue;
    const std::string names = cells[1];
    for (std::sregex_iterator type(names.begin(), names.end(), name), end; type != end; ++type)
      found[(*type)[1]] = cells[2];
  }
  return found;
}

TEST_P(FamilyModel, is_balanced_as_the_guide_says) {
  const RouterConfig& router = described_directory(GetParam().directory).config.router;
  const std::string balance = balance_in_guide()[GetParam().model_type];
  EXPECT_EQ(router.has_balancing_loss(), balance == "loss");
  EXPECT_EQ(router.has_correction_bias, balance.starts_with("bias"));
}

TEST(PublishedModels, each_family_is_among_them_but_those_that_hold_the_language_model_of_another) {
  std::set<std::string> known{
      "deepseek_v32", "glm_moe_dsa",      "kimi_k25",    "mistral3",           "qwen3_5",
      "qwen3_5_text", "qwen3_5_moe_text", "gemma4_text", "minimax_m3_vl_text", "step3p7"};
  for (const auto& model : std::filesystem::directory_iterator(fixture_folder() / "configs"))
    known.insert(described_directory(model.path().filename().string()).config.model_type);
  std::set<std::string> all;
  for (const Architecture& architecture : architectures()) all.emplace(architecture.model_type);
  EXPECT_EQ(known, all);
}

}  // namespace
}  // namespace sluice
