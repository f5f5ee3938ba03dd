#include "adapter/peft_adapter.hpp"

#include "io/file.hpp"
#include "model/architecture.hpp"
#include "support/expect_error.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <functional>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kFixtures = fixture_folder();
const std::string kLayer = "base_model.model.model.layers.1.";

ParameterManifest manifest_of(const std::string& model) {
  return describe_model(kFixtures / model, DType::kFloat32).manifest;
}

PeftAdapter read(const std::string& adapter, const std::string& model) {
  return read_peft_adapter(kFixtures / "lora" / adapter, manifest_of(model));
}

const AdaptedTensor& of(const PeftAdapter& adapter, std::string_view base) {
  const AdaptedTensor* found = adapter.adapters.find(base);
  SLUICE_ASSERT(found != nullptr, "{} is not adapted", base);
  return *found;
}

TEST(PeftAdapter, experts_router_and_head_of_a_qwen3_moe) {
  const PeftAdapter adapter = read("qwen3-moe", "qwen3-moe-tiny");
  EXPECT_EQ(adapter.adapters.tensors.size(), 3U * 7 + 1);
  for (const AdaptedTensor& tensor : adapter.adapters.tensors) {
    EXPECT_EQ(tensor.rank, 4);
    EXPECT_EQ(tensor.scale, 2);
  }
  for (const char* base :
       {"lm_head.weight", "model.layers.2.mlp.gate.weight", "model.layers.0.mlp.experts.gate_up_proj",
        "model.layers.0.mlp.experts.down_proj", "model.layers.1.self_attn.o_proj.weight"})
    EXPECT_NE(adapter.adapters.find(base), nullptr) << base;
  EXPECT_EQ(adapter.adapters.dropout, 0);
}

TEST(PeftAdapter, patterns_of_ranks_and_alphas_with_rank_stabilised_scales) {
  const PeftAdapter adapter = read("qwen3_5-moe", "qwen3_5-moe-tiny");
  EXPECT_TRUE(adapter.style.rslora);
  EXPECT_EQ(adapter.style.tree, "model.");
  EXPECT_EQ(of(adapter, "model.layers.3.self_attn.q_proj.weight").rank, 2);
  EXPECT_DOUBLE_EQ(of(adapter, "model.layers.3.self_attn.q_proj.weight").scale, 5 / std::sqrt(2.0));
  EXPECT_EQ(of(adapter, "model.layers.1.mlp.experts.down_proj").rank, 1);
  EXPECT_EQ(of(adapter, "model.layers.2.mlp.experts.down_proj").rank, 3);
  EXPECT_DOUBLE_EQ(of(adapter, "model.layers.0.mlp.shared_expert.up_proj.weight").scale, 7 / std::sqrt(3.0));
  EXPECT_NE(adapter.adapters.find("model.layers.0.linear_attn.in_proj_qkv.weight"), nullptr);
}

TEST(PeftAdapter, one_fused_parameter_alone_is_the_one_that_is_named) {
  const PeftAdapter adapter = read("qwen3-moe-down", "qwen3-moe-tiny");
  ASSERT_EQ(adapter.adapters.tensors.size(), 3U);
  EXPECT_EQ(adapter.adapters.tensors[0].base, "model.layers.0.mlp.experts.down_proj");
}

TEST(PeftAdapter, single_experts_become_one_of_both_ranks_at_the_same_scale) {
  const PeftAdapter adapter = read("per-expert", "qwen3-moe-tiny");
  EXPECT_EQ(of(adapter, "model.layers.2.mlp.experts.gate_up_proj").rank, 4);
  EXPECT_EQ(of(adapter, "model.layers.2.mlp.experts.gate_up_proj").scale, 1.5);
  EXPECT_EQ(of(adapter, "model.layers.2.mlp.experts.down_proj").rank, 2);
  EXPECT_EQ(of(adapter, "model.layers.2.mlp.experts.down_proj").scale, 1.5);
}

/// The tensors of a lone adapter of gate_up_proj where its shapes do not tell which form it has.
std::string first_tensor_of_square_experts(const std::string& version) {
  json config = json::parse(read_text_file(kFixtures / "qwen3-moe-tiny/config.json", 1 << 20));
  config["moe_intermediate_size"] = 32;  // gate and up together are as wide as the model
  config["num_hidden_layers"] = 1;
  const ParameterManifest manifest =
      describe_model_text(config.dump(), "config.json", DType::kFloat32).manifest;
  const test::TemporaryDirectory directory;
  std::vector<SafetensorsEntry> entries{
      {"base_model.model.model.layers.0.mlp.experts.lora_A.weight", DType::kFloat32, {16, 64}},
      {"base_model.model.model.layers.0.mlp.experts.lora_B.weight", DType::kFloat32, {64, 16}}};
  const std::string header = make_safetensors_header(entries, {});
  static_cast<void>(
      directory.write(kPeftWeightsFile, header + std::string(2 * 16 * 64 * sizeof(float), '\0')));
  static_cast<void>(directory.write(kPeftConfigFile, json{{"peft_type", "LORA"},
                                                          {"r", 2},
                                                          {"peft_version", version},
                                                          {"target_parameters", {"experts.gate_up_proj"}}}
                                                         .dump()));
  return read_peft_adapter(directory.path(), manifest).tensors.front().parts.front().tensor;
}

TEST(PeftAdapter, the_version_tells_the_form_of_experts_where_the_shapes_do_not) {
  EXPECT_EQ(first_tensor_of_square_experts("0.20.0"), "model.layers.0.mlp.experts.gate_up_proj.lora_A");
  EXPECT_EQ(first_tensor_of_square_experts("0.19.1"), "model.layers.0.mlp.experts.gate_up_proj.lora_B");
}

struct Tensor {
  SafetensorsEntry entry;
  std::vector<std::byte> bytes;
};

/// A copy of a fixture that can be changed.
class Changed {
 public:
  explicit Changed(const std::string& adapter = "qwen3-moe") {
    const fs::path from = kFixtures / "lora" / adapter;
    config = json::parse(read_text_file(from / kPeftConfigFile, 1 << 20));
    const InputFile file = InputFile::open(from / kPeftWeightsFile);
    for (const SafetensorsEntry& entry : read_safetensors_header(file).entries) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(entry.bytes));
      file.read_at(entry.begin, bytes);
      tensors.push_back({entry, std::move(bytes)});
    }
  }

  [[nodiscard]] Tensor& find(const std::string& name) {
    const auto found =
        std::ranges::find(tensors, name, [](const Tensor& tensor) { return tensor.entry.name; });
    SLUICE_ASSERT(found != tensors.end(), "no {}", name);
    return *found;
  }
  void erase(const std::string& name) {
    std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.entry.name == name; });
  }

  [[nodiscard]] const fs::path& write() const {
    std::vector<SafetensorsEntry> entries;
    for (const Tensor& tensor : tensors) entries.push_back(tensor.entry);
    const std::string header = make_safetensors_header(entries, {});
    std::ofstream out(directory_.path() / kPeftWeightsFile, std::ios::binary);
    out << header;
    for (const Tensor& tensor : tensors)
      out.write(reinterpret_cast<const char*>(tensor.bytes.data()), std::ssize(tensor.bytes));
    std::ofstream(directory_.path() / kPeftConfigFile) << config;
    return directory_.path();
  }

  [[nodiscard]] PeftAdapter read(const std::string& model = "qwen3-moe-tiny") const {
    return read_peft_adapter(write(), manifest_of(model));
  }
  void expect_refusal(const std::vector<std::string>& parts,
                      const std::string& model = "qwen3-moe-tiny") const {
    test::expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(read(model)); });
  }

  json config;
  std::vector<Tensor> tensors;

 private:
  test::TemporaryDirectory directory_;
};

TEST(PeftAdapter, names_every_tensor_that_is_missing) {
  Changed adapter;
  adapter.erase(kLayer + "self_attn.q_proj.lora_B.weight");
  adapter.erase(kLayer + "mlp.experts.lora_A.weight");
  adapter.erase(kLayer + "mlp.gate.lora_A.weight");
  adapter.erase(kLayer + "mlp.gate.lora_B.weight");
  adapter.expect_refusal({"adapter_model.safetensors", "3 tensors are missing",
                          kLayer + "self_attn.q_proj.lora_B.weight", kLayer + "mlp.experts.lora_A.weight",
                          kLayer + "mlp.gate.lora_A.weight"});
}

TEST(PeftAdapter, names_the_tensors_of_single_experts_that_are_missing) {
  Changed adapter("per-expert");
  adapter.erase(kLayer + "mlp.experts.7.up_proj.lora_A.weight");
  adapter.expect_refusal({"1 tensor is missing", kLayer + "mlp.experts.7.up_proj.lora_A.weight"});
}

TEST(PeftAdapter, single_experts_may_be_adapted_in_some_projections_alone) {
  const auto adapted = [](const std::vector<std::string>& projections) {
    Changed adapter("per-expert");
    adapter.config["target_modules"] = projections;
    std::erase_if(adapter.tensors, [&](const Tensor& tensor) {
      return std::ranges::none_of(projections, [&](const std::string& projection) {
        return tensor.entry.name.find(projection) != std::string::npos;
      });
    });
    std::vector<std::string> weights;
    for (const AdaptedTensor& tensor : adapter.read().adapters.tensors) weights.push_back(tensor.base);
    return weights;
  };
  const auto in_each_layer = [](const std::string& weight) {
    std::vector<std::string> weights;
    for (int layer = 0; layer < 3; ++layer)
      weights.push_back(fmt::format("model.layers.{}.mlp.experts.{}", layer, weight));
    return weights;
  };
  EXPECT_EQ(adapted({"down_proj"}), in_each_layer("down_proj"));
  EXPECT_EQ(adapted({"gate_proj", "up_proj"}), in_each_layer("gate_up_proj"));
}

TEST(PeftAdapter, refuses_an_adapter_of_another_model) {
  const Changed adapter;
  adapter.expect_refusal(
      {"39 do not fit", kLayer + "self_attn.q_proj.lora_A.weight adapts a weight", "model does not have",
       "7 tensors are missing", "base_model.model.model.layers.3.mlp.experts.base_layer.lora_A.weight"},
      "qwen3_5-moe-tiny");
  adapter.expect_refusal({"layers.0.mlp.experts.lora_A.weight is [32, 48]", "[28, 48]", "rank 4"},
                         "qwen3-moe-mixed");
}

TEST(PeftAdapter, refuses_one_of_a_part_of_a_matrix_that_is_published_joined) {
  Changed adapter("qwen3_next");
  const std::string module = "base_model.model.model.layers.0.linear_attn.in_proj_qkv";
  adapter.find(module + "z.lora_A.weight").entry.name = module + ".lora_A.weight";
  adapter.expect_refusal(
      {module + ".lora_A.weight adapts what is published as", "in_proj_qkvz.weight", "1 tensor is missing"},
      "qwen3_next-tiny");
}

TEST(PeftAdapter, takes_square_experts_that_are_published_transposed_the_same_way_of_every_version) {
  Changed adapter("gpt_oss-square");
  for (const char* version : {"0.18.1", "0.21.2"}) {
    adapter.config["peft_version"] = version;
    const auto tensors = adapter.read("gpt_oss-tiny-square").tensors;
    const auto down = std::ranges::find(tensors, kLayer + "mlp.experts.lora_A.weight",
                                        [](const PeftTensor& tensor) { return tensor.entry.name; });
    EXPECT_EQ(down->parts.front().tensor, "model.layers.1.mlp.experts.down_proj.lora_A") << version;
  }
}

TEST(PeftAdapter, refuses_another_rank_than_the_configuration_says) {
  Changed adapter;
  adapter.config["r"] = 5;
  adapter.expect_refusal({"self_attn.q_proj.lora_A.weight is [4, 64]", "[5, 64]", "rank 5"});
}

TEST(PeftAdapter, refuses_tensors_that_nothing_means) {
  Changed adapter;
  adapter.config["target_modules"] = {"q_proj", "k_proj", "v_proj", "o_proj"};
  adapter.expect_refusal({"lm_head.weight is adapted", "target_modules", "target_parameters"});
}

TEST(PeftAdapter, refuses_what_has_no_adapter_here_by_name) {
  const auto expect = [&](const std::string& name, const std::string& because) {
    Changed adapter;
    adapter.find(kLayer + "self_attn.q_proj.lora_A.weight").entry.name = name;
    adapter.expect_refusal({name + " ", because});
  };
  expect("base_model.model.model.embed_tokens.lora_embedding_A", "adapts an embedding");
  expect(kLayer + "self_attn.q_proj.lora_magnitude_vector", "belongs to DoRA");
  expect(kLayer + "self_attn.q_proj.bias", "is neither a lora_A nor a lora_B");
  expect(kLayer + "input_layernorm.lora_A.weight", "has no adapter here");
  expect("base_model.model.model.visual.blocks.0.attn.qkv.lora_A.weight", "vision tower");
  expect(kLayer + "mlp.experts.base_layer.base_layer.lora_A.weight", "adapts one more parameter");
  expect(kLayer + "mlp.experts.8.up_proj.lora_A.weight", "adapts an expert");
}

TEST(PeftAdapter, refuses_values_of_a_type_that_does_not_convert) {
  Changed adapter;
  adapter.find(kLayer + "self_attn.q_proj.lora_A.weight").entry.dtype = DType::kInt32;
  adapter.expect_refusal({"self_attn.q_proj.lora_A.weight is int32", "bfloat16"});
}

TEST(PeftAdapter, experts_of_different_ranks_are_refused) {
  Changed adapter("per-expert");
  adapter.config["alpha_pattern"] = {{R"(experts\.5\.down_proj)", 9}};
  adapter.expect_refusal({"layers.0.mlp.experts.5.down_proj.lora_A.weight", "rank or alpha"});
}

TEST(PeftAdapter, says_what_a_directory_without_the_files_lacks) {
  const test::TemporaryDirectory directory;
  const ParameterManifest manifest = manifest_of("qwen3-moe-tiny");
  const auto read_it = [&] { static_cast<void>(read_peft_adapter(directory.path(), manifest)); };
  test::expect_error(ExitCode::kBadData, {"adapter_config.json"}, read_it);
  std::ofstream(directory.path() / kPeftConfigFile) << R"({"peft_type": "LORA"})";
  test::expect_error(ExitCode::kBadData, {"adapter_model.safetensors"}, read_it);
  std::ofstream(directory.path() / "adapter_model.bin") << "x";
  test::expect_error(ExitCode::kBadData, {"found adapter_model.bin", "pickled"}, read_it);
}

TEST(PeftAdapter, names_of_a_wrapped_model_and_of_other_spellings_are_the_same) {
  Changed adapter;
  for (Tensor& tensor : adapter.tensors) {
    const std::string from = "base_model.model.model.layers.";
    if (tensor.entry.name.starts_with(from))
      tensor.entry.name.replace(0, from.size(), "base_model.model.model.language_model.layers.");
  }
  adapter.config["rank_pattern"] = {{R"(^model\.language_model\.layers\.1\.self_attn\.q_proj)", 4}};
  adapter.config["r"] = 4;
  EXPECT_EQ(adapter.read().adapters.tensors, read("qwen3-moe", "qwen3-moe-tiny").adapters.tensors);
  EXPECT_EQ(adapter.read().style.tree, "model.language_model.");
}

TEST(PeftAdapter, names_with_the_adapters_own_name_are_the_same) {
  for (const std::string own : {".default", ".of_mine"}) {
    Changed adapter;
    for (Tensor& tensor : adapter.tensors)
      if (tensor.entry.name.ends_with(".weight") && tensor.entry.name.find(".lora_") != std::string::npos)
        tensor.entry.name.insert(tensor.entry.name.size() - 7, own);
    EXPECT_EQ(adapter.read().adapters.tensors, read("qwen3-moe", "qwen3-moe-tiny").adapters.tensors);
    std::string& other =
        adapter.find(std::string(kLayer).append("self_attn.q_proj.lora_A").append(own).append(".weight"))
            .entry.name;
    other = kLayer + "self_attn.q_proj.lora_A.another.weight";
    adapter.expect_refusal({other, "another adapter", own.substr(1)});
  }
}

TEST(PeftAdapter, experts_without_a_gate_have_an_adapter_of_up_and_one_of_down) {
  const PeftAdapter adapter = read("nemotron_h", "nemotron_h-tiny");
  for (const char* base : {"model.layers.1.mlp.experts.up_proj", "model.layers.5.mlp.experts.down_proj",
                           "model.layers.0.mixer.in_proj.weight", "model.layers.3.mixer.down_proj.weight"}) {
    EXPECT_EQ(of(adapter, base).rank, 2) << base;
    EXPECT_EQ(of(adapter, base).scale, 1.5) << base;
  }
  Changed one_by_one("nemotron_h");
  for (const char* part : {"lora_A", "lora_B"}) {
    const std::string end = std::string(part).append(".weight");
    one_by_one.find(std::string(kLayer).append("mixer.experts.base_layer.").append(end)).entry.name =
        std::string(kLayer).append("mixer.experts.3.gate_proj.").append(end);
  }
  one_by_one.expect_refusal({"mixer.experts.3.gate_proj.lora_A.weight", "adapts an expert"},
                            "nemotron_h-tiny");
}

TEST(PeftAdapter, all_linear_does_not_mean_what_peft_refuses_in_a_family) {
  Changed adapter("nemotron_h");
  adapter.config["target_modules"] = "all-linear";
  adapter.config["exclude_modules"] = {"k_proj", "v_proj"};
  EXPECT_EQ(adapter.read("nemotron_h-tiny").adapters.tensors,
            read("nemotron_h", "nemotron_h-tiny").adapters.tensors);
}

/// A copy of an adapter of every linear layer, as PEFT 0.21 makes it, with its targets as the text.
struct AllLinear : Changed {
  AllLinear() : Changed("all-linear") { config["target_modules"] = "all-linear"; }
};

TEST(PeftAdapter, all_linear_is_what_the_file_has_of_linear_layers_routers_and_experts) {
  const std::vector<AdaptedTensor> expected = read("all-linear", "qwen3-moe-tiny").adapters.tensors;
  EXPECT_EQ(AllLinear().read().adapters.tensors, expected);
  AllLinear without_lists;  // as it was before PEFT took its word apart
  for (const char* key : {"target_parameters", "rank_pattern", "alpha_pattern"})
    without_lists.config.erase(key);
  EXPECT_EQ(without_lists.read().adapters.tensors, expected);
  AllLinear attention;
  attention.config.erase("target_parameters");
  std::erase_if(attention.tensors,
                [](const Tensor& tensor) { return tensor.entry.name.find(".mlp.") != std::string::npos; });
  EXPECT_EQ(attention.read().adapters.tensors.size(), 3U * 4);
}

TEST(PeftAdapter, all_linear_means_single_experts_with_the_ranks_that_they_have) {
  Changed adapter("per-expert");
  const auto expected = adapter.read().adapters.tensors;
  adapter.config["target_modules"] = "all-linear";
  adapter.config["exclude_modules"] = {"q_proj", "k_proj", "o_proj"};
  EXPECT_EQ(adapter.read().adapters.tensors, expected);
  adapter.config.erase("exclude_modules");
  adapter.expect_refusal({"9 tensors are missing", kLayer + "self_attn.q_proj.lora_A.weight"});
}

TEST(PeftAdapter, all_linear_is_whole_in_every_layer_and_leaves_the_head_out) {
  AllLinear adapter;
  adapter.config.erase("target_parameters");
  for (const char* part : {"lora_A", "lora_B"}) adapter.erase(kLayer + "mlp.gate." + part + ".weight");
  adapter.expect_refusal({"1 tensor is missing", kLayer + "mlp.gate.lora_A.weight"});
  Changed with_head;
  with_head.config["target_modules"] = "all-linear";
  with_head.expect_refusal({"lm_head.weight is adapted"});
}

}  // namespace
}  // namespace sluice
