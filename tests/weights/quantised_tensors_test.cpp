#include "weights/quantised_tensors.hpp"

#include "base/text.hpp"
#include "manifest/key_map.hpp"
#include "weights/tiny_model.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using test::FileTensor;
using testing::AllOf;
using testing::HasSubstr;

constexpr DType kCodes = DType::kFloat8E4M3;
constexpr DType kScale = DType::kFloat32;

class QuantisedTensors : public testing::Test {
 protected:
  CheckpointIndex read(const std::vector<FileTensor>& tensors, const std::string& quantization = "") const {
    test::write_safetensors(directory_ / "model.safetensors", tensors);
    if (!quantization.empty())
      test::write_file(directory_ / "config.json", "{\"quantization_config\": " + quantization + "}");
    return read_checkpoint_index(directory_.path());
  }
  std::string error(const std::vector<FileTensor>& tensors, const std::string& quantization = "") const {
    return test::error_of([&] { static_cast<void>(read(tensors, quantization)); });
  }
  /// How weights of that shape are taken to be stored with scales of that shape.
  std::string form(const std::vector<std::int64_t>& weight, const std::vector<std::int64_t>& scale,
                   const std::string& quantization = "") const {
    const CheckpointIndex index =
        read({{"a.weight", weight, kCodes}, {"a.weight_scale_inv", scale, kScale}}, quantization);
    EXPECT_EQ(index.entries.size(), 1U);
    EXPECT_EQ(index.entries[0].name, "a.weight");
    EXPECT_EQ(index.entries[0].dtype, DType::kBFloat16);
    EXPECT_EQ(index.entries[0].shape, weight);
    return index.form_of(index.entries[0]);
  }

 private:
  test::TemporaryDirectory directory_;
};

TEST_F(QuantisedTensors, the_shape_of_scales_says_what_they_are_of) {
  EXPECT_EQ(form({576, 384}, {5, 3}), "float8_e4m3fn in blocks of 128 x 128");
  EXPECT_EQ(form({576, 384}, {}), "float8_e4m3fn by tensor");
  EXPECT_EQ(form({576, 384}, {1}), "float8_e4m3fn by tensor");
  EXPECT_EQ(form({576, 384}, {576, 1}), "float8_e4m3fn by row");
  EXPECT_EQ(form({576, 384}, {576}), "float8_e4m3fn by row");
  EXPECT_EQ(form({4, 200, 300}, {4, 2, 3}), "float8_e4m3fn in blocks of 128 x 128");
  EXPECT_EQ(form({4, 20, 30}, {4, 1, 1}), "float8_e4m3fn by tensor");
  EXPECT_EQ(form({40, 30}, {3, 2}, R"({"quant_method": "fp8", "weight_block_size": [16, 24]})"),
            "float8_e4m3fn in blocks of 16 x 24");
}

TEST_F(QuantisedTensors, scales_of_modelopt_and_mxfp8_have_shapes_of_their_own) {
  EXPECT_EQ(form({576, 384}, {5, 1, 3, 1}), "float8_e4m3fn in blocks of 128 x 128");
  EXPECT_EQ(form({4, 200, 300}, {4, 200}), "float8_e4m3fn by row");
  const std::vector<FileTensor> mxfp8{{"a.weight", {40, 96}, kCodes},
                                      {"a.weight_scale", {40, 3}, DType::kUInt8}};
  for (const char* config : {"", R"({"quant_method": "mxfp8"})", R"({"quant_algo": "MIXED_PRECISION"})",
                             R"({"quant_method": "modelopt", "quant_algo": "MXFP8"})"}) {
    const CheckpointIndex index = read(mxfp8, config);
    EXPECT_EQ(index.form_of(index.entries[0]), "float8_e4m3fn in blocks of 1 x 32") << config;
  }
}

TEST_F(QuantisedTensors, exponents_are_of_rows_or_of_blocks_by_the_shape_of_scales) {
  for (const DType exponents : {DType::kUInt8, DType::kFloat8E8M0}) {
    const auto of = [&](std::vector<std::int64_t> weight, std::vector<std::int64_t> scales) {
      return std::vector<FileTensor>{{"a.weight", weight, kCodes}, {"a.weight_scale_inv", scales, exponents}};
    };
    const CheckpointIndex rows = read(of({2, 40, 96}, {2, 40, 3}), R"({"quant_method": "mxfp8"})");
    EXPECT_EQ(rows.form_of(rows.entries[0]), "float8_e4m3fn in blocks of 1 x 32");
    const CheckpointIndex blocks =
        read(of({300, 256}, {3, 2}), R"({"quant_method": "fp8", "weight_block_size": [128, 128]})");
    EXPECT_EQ(blocks.form_of(blocks.entries[0]), "float8_e4m3fn in blocks of 128 x 128");
    for (const auto& [config, scales] :
         {std::pair(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})",
                    std::vector<std::int64_t>{300, 8}),
          std::pair(R"({"quant_method": "mxfp8"})", std::vector<std::int64_t>{3, 2}),
          std::pair(R"({"quant_method": "modelopt", "quant_algo": "MXFP8"})",
                    std::vector<std::int64_t>{3, 2}),
          std::pair("", std::vector<std::int64_t>{300, 4})})
      EXPECT_THAT(error(of({300, 256}, scales), config),
                  AllOf(HasSubstr("65: "), HasSubstr("a.weight_scale_inv"), HasSubstr("expected")))
          << config;
    EXPECT_THAT(error(of({40, 100}, {40, 4}), R"({"quant_method": "mxfp8"})"),
                AllOf(HasSubstr("65: "), HasSubstr("a.weight"), HasSubstr("[40, 100]"), HasSubstr("32")));
    EXPECT_THAT(error(of({40, 20}, {40, 1}), R"({"quant_method": "mxfp8"})"),
                AllOf(HasSubstr("65: "), HasSubstr("a.weight"), HasSubstr("[40, 20]")));
    EXPECT_EQ(read(of({40, 20}, {40, 1}), R"({"quant_method": "fp8"})").entries.size(), 1U);
  }
}

TEST_F(QuantisedTensors, each_of_several_groups_has_blocks_of_its_own) {
  const std::string config = R"({"quant_method": "compressed-tensors", "config_groups": {
      "a": {"weights": {"num_bits": 8, "type": "float", "block_structure": [16, 24]}, "targets": ["re:a.*"]},
      "b": {"weights": {"num_bits": 8, "type": "float", "block_structure": "20x30"}, "targets": ["Linear"]},
      "c": {"weights": {"num_bits": 4, "group_size": 32}, "targets": ["c"]}}})";
  const CheckpointIndex index = read({{"a.weight", {40, 60}, kCodes},
                                      {"a.weight_scale", {3, 3}, kScale},
                                      {"a2.weight", {30, 50}, kCodes},
                                      {"a2.weight_scale", {2, 2}, kScale},
                                      {"ab.weight", {30, 40}, kCodes},
                                      {"ab.weight_scale", {2, 2}, kScale},
                                      {"b.weight", {30, 40}, kCodes},
                                      {"b.weight_scale", {2, 2}, kScale}},
                                     config);
  std::map<std::string, std::string> forms;
  for (const CheckpointEntry& entry : index.entries) forms[entry.name] = index.form_of(entry);
  // The grid of a fits the first group alone, that of a2 the second one, whatever its targets say; both fit the
  // others.
  EXPECT_EQ(forms["a.weight"], "float8_e4m3fn in blocks of 16 x 24");
  EXPECT_EQ(forms["a2.weight"], "float8_e4m3fn in blocks of 20 x 30");
  EXPECT_EQ(forms["ab.weight"], "float8_e4m3fn in blocks of 16 x 24");
  EXPECT_EQ(forms["b.weight"], "float8_e4m3fn in blocks of 20 x 30");
  EXPECT_THAT(error({{"a.weight", {40, 60}, kCodes}, {"a.weight_scale", {5, 5}, kScale}}, config),
              AllOf(HasSubstr("65: "), HasSubstr("[5, 5], expected")));
}

// As MiMo-V2-Flash has them in its full layers: heads of 192 rows of keys and 128 of values, in 3 blocks each.
TEST_F(QuantisedTensors, keys_and_values_of_heads_may_be_in_blocks_that_go_on_from_one_to_the_other) {
  const auto heads = [&](std::int64_t key_scales) {
    return std::vector<FileTensor>{{"a.k_proj.weight", {4 * 192, 256}, kCodes},
                                   {"a.k_proj.weight_scale_inv", {key_scales, 2}, kScale},
                                   {"a.v_proj.weight", {4 * 128, 256}, kCodes},
                                   {"a.v_proj.weight_scale_inv", {4, 2}, kScale}};
  };
  const char* const config = R"({"quant_method": "fp8", "weight_block_size": [128, 128]})";
  const auto encoding_of = [&](const CheckpointIndex& index, const char* name) {
    return *index.encoding_of(*std::ranges::find(index.entries, name, &CheckpointEntry::name));
  };
  const CheckpointIndex index = read(heads(8), config);
  const Encoding keys = encoding_of(index, "a.k_proj.weight"), values = encoding_of(index, "a.v_proj.weight");
  EXPECT_EQ(std::pair(keys.rows, keys.block_rows), std::pair(std::int64_t{192}, std::int64_t{128}));
  EXPECT_EQ(keys.shared.stride, 0);
  EXPECT_EQ(std::pair(values.rows, values.block_rows), std::pair(std::int64_t{128}, std::int64_t{64}));
  EXPECT_EQ(values.scale_count, 4 * 2 * 2);
  EXPECT_EQ(values.shared, (SharedScales{keys.scale_file, keys.scale_begin + 2 * 4, 2 * 2 * 4}));
  const CheckpointIndex alone = read(heads(6), config);
  EXPECT_EQ(encoding_of(alone, "a.k_proj.weight").rows, 4 * 192);
  EXPECT_EQ(encoding_of(alone, "a.v_proj.weight").rows, 4 * 128);
  EXPECT_THAT(error(heads(7), config), AllOf(HasSubstr("65: "), HasSubstr("[7, 2], expected [6, 2]")));
}

TEST_F(QuantisedTensors, groups_of_packed_weights_are_those_of_any_group_of_the_config) {
  const std::string shape("\4\0\0\0\140\0\0\0", 8);
  const auto config = [](const char* sizes) {
    return fmt::format(R"({{"quant_method": "compressed-tensors", "config_groups": {{{}}}}})", sizes);
  };
  const std::vector<FileTensor> tensors{{"a.weight_packed", {4, 12}, DType::kInt32},
                                        {"a.weight_scale", {4, 3}, DType::kBFloat16},
                                        {"a.weight_shape", {2}, DType::kInt32, shape}};
  EXPECT_NO_THROW(
      static_cast<void>(read(tensors, config(R"("a": {"weights": {"num_bits": 4, "group_size": 16}},
      "b": {"weights": {"num_bits": 4, "group_size": 32}})"))));
  EXPECT_NO_THROW(
      static_cast<void>(read(tensors, config(R"("a": {"weights": {"num_bits": 4, "group_size": 16}},
      "b": {"weights": {"num_bits": 4, "group_size": -1}})"))));
  EXPECT_THAT(error(tensors, config(R"("a": {"weights": {"num_bits": 4, "group_size": 16}},
      "b": {"weights": {"num_bits": 4, "group_size": 48}})")),
              HasSubstr("group_size 16 or 48"));
}

TEST_F(QuantisedTensors, fused_experts_have_scales_by_the_names_of_modelopt) {
  const auto tensors = [](std::vector<float> factors, std::vector<std::int64_t> shape) {
    return std::vector<FileTensor>{
        {"a.experts.down_proj", {2, 6, 48}, DType::kUInt8},
        {"a.experts.down_proj_weight_scale", {2, 6, 6}, kCodes},
        {"a.experts.down_proj_weight_scale_2", std::move(shape), kScale,
         std::string(reinterpret_cast<const char*>(factors.data()), factors.size() * sizeof(float))},
        {"a.experts.down_proj_input_scale", {}, kScale}};
  };
  for (const auto& [factors, shape] :
       {std::pair(std::vector<float>{0.25F}, std::vector<std::int64_t>{}),
        std::pair(std::vector<float>{0.25F, 0.25F}, std::vector<std::int64_t>{2, 1, 1})}) {
    const CheckpointIndex index = read(tensors(factors, shape), R"({"quant_algo": "W4A16_NVFP4"})");
    ASSERT_EQ(index.entries.size(), 2U);
    const auto& found = *std::ranges::find(index.entries, "a.experts.down_proj", &CheckpointEntry::name);
    EXPECT_EQ(found.shape, (std::vector<std::int64_t>{2, 6, 96}));
    EXPECT_EQ(index.form_of(found), "nvfp4 in groups of 16");
    EXPECT_EQ(index.encodings[0].tensor_scale, (TensorScale{0.25F, 1}));
  }
  EXPECT_THAT(error(tensors({0.25F, 0.5F}, {2})),
              AllOf(HasSubstr("down_proj_weight_scale_2"), HasSubstr("different")));
  const CheckpointIndex float8 = read(
      {{"a.experts.down_proj", {2, 6, 48}, kCodes}, {"a.experts.down_proj_weight_scale", {2, 1, 1}, kScale}});
  EXPECT_EQ(float8.form_of(float8.entries[0]), "float8_e4m3fn by tensor");
}

TEST_F(QuantisedTensors, blocks_and_scales_of_mxfp4_are_one_tensor_of_rows) {
  for (const DType scale : {DType::kUInt8, DType::kFloat8E8M0}) {
    const CheckpointIndex index = read({{"a.experts.down_proj_blocks", {2, 6, 3, 16}, DType::kUInt8},
                                        {"a.experts.down_proj_scales", {2, 6, 3}, scale},
                                        {"a.experts.down_proj_bias", {2, 6}}},
                                       R"({"quant_method": "mxfp4"})");
    ASSERT_EQ(index.entries.size(), 2U);
    const auto& found = *std::ranges::find(index.entries, "a.experts.down_proj", &CheckpointEntry::name);
    EXPECT_EQ(found.dtype, DType::kBFloat16);
    EXPECT_EQ(found.shape, (std::vector<std::int64_t>{2, 6, 96}));
    EXPECT_EQ(index.form_of(found), "mxfp4 in groups of 32");
    EXPECT_EQ(index.stored_bytes(found), 2 * 6 * 3 * (16 + 1));
  }
}

TEST_F(QuantisedTensors, blocks_and_scales_of_mxfp4_that_do_not_fit_are_named) {
  const FileTensor blocks{"a.up_proj_blocks", {2, 6, 3, 16}, DType::kUInt8},
      scales{"a.up_proj_scales", {2, 6, 3}, DType::kUInt8};
  EXPECT_THAT(error({blocks}), AllOf(HasSubstr("65: "), HasSubstr("a.up_proj_blocks (model.safetensors)"),
                                     HasSubstr("without a.up_proj_scales")));
  EXPECT_THAT(error({scales}), AllOf(HasSubstr("65: "), HasSubstr("a.up_proj_blocks is missing")));
  EXPECT_THAT(
      error({blocks, {"a.up_proj_scales", {2, 6, 4}, DType::kUInt8}}),
      AllOf(HasSubstr("65: "), HasSubstr("a.up_proj_scales"), HasSubstr("[2, 6, 4], expected [2, 6, 3]")));
  EXPECT_THAT(error({{"a.up_proj_blocks", {2, 6, 6, 8}, DType::kUInt8}, scales}),
              AllOf(HasSubstr("65: "), HasSubstr("[2, 6, 6, 8]"), HasSubstr("groups of 32")));
  EXPECT_THAT(error({blocks, {"a.up_proj_scales", {2, 6, 3}, kScale}}),
              HasSubstr("is float32, expected uint8"));
  EXPECT_THAT(error({blocks, scales}, R"({"quant_method": "fp8"})"),
              AllOf(HasSubstr("no weights in MXFP4"), HasSubstr("weights in FP8")));
  EXPECT_THAT(error({{"a.weight", {4, 4}}}, R"({"quant_method": "mxfp4"})"),
              AllOf(HasSubstr("weights in MXFP4"), HasSubstr("hold none")));
}

/// 4-bit floating-point codes of [4, 96], two a byte, with scales and the scale of the tensor.
std::vector<FileTensor> float4_rows(const char* codes, DType scales, const char* of_tensor, float number) {
  const std::int64_t groups = scales == kCodes ? 6 : 3;
  std::vector<FileTensor> tensors{{codes, {4, 48}, DType::kUInt8}, {"a.weight_scale", {4, groups}, scales}};
  if (of_tensor != nullptr)
    tensors.push_back(
        {of_tensor, {1}, kScale, std::string(reinterpret_cast<const char*>(&number), sizeof(number))});
  return tensors;
}

TEST_F(QuantisedTensors, rows_of_float4_are_mxfp4_or_nvfp4_by_the_type_of_their_scales) {
  const auto form = [&](const std::vector<FileTensor>& tensors) {
    const CheckpointIndex index = read(tensors);
    EXPECT_EQ(index.entries.size(), 1U);
    EXPECT_EQ(index.entries[0].name, "a.weight");
    EXPECT_EQ(index.entries[0].shape, (std::vector<std::int64_t>{4, 96}));
    return std::pair(index.form_of(index.entries[0]), index.encodings[0].tensor_scale);
  };
  EXPECT_EQ(form(float4_rows("a.weight_packed", DType::kUInt8, nullptr, 0)),
            std::pair(std::string("mxfp4 in groups of 32"), TensorScale{}));
  EXPECT_EQ(form(float4_rows("a.weight_packed", kCodes, "a.weight_global_scale", 768)),
            std::pair(std::string("nvfp4 in groups of 16"), TensorScale{1, 768}));
  EXPECT_EQ(form(float4_rows("a.weight", kCodes, "a.weight_scale_2", 0.25F)),
            std::pair(std::string("nvfp4 in groups of 16"), TensorScale{0.25F, 1}));
}

TEST_F(QuantisedTensors, parts_of_nvfp4_that_are_missing_or_wrong_are_named) {
  const auto rows = float4_rows("a.weight_packed", kCodes, "a.weight_global_scale", 768);
  EXPECT_THAT(error({rows[0], rows[1]}),
              AllOf(HasSubstr("65: "), HasSubstr("a.weight_packed (model.safetensors)"),
                    HasSubstr("without a.weight_global_scale")));
  EXPECT_THAT(error({rows[0], rows[2]}), HasSubstr("without a.weight_scale"));
  EXPECT_THAT(error({rows[2]}),
              HasSubstr("a.weight_global_scale (model.safetensors) has no quantised weights"));
  EXPECT_THAT(error({rows[0], {"a.weight_scale", {4, 7}, kCodes}, rows[2]}),
              HasSubstr("is [4, 7], expected"));
  EXPECT_THAT(error({rows[0], {"a.weight_scale", {4, 6}, kScale}}), HasSubstr("is float32, expected uint8"));
  EXPECT_THAT(error({rows[0], rows[1], {"a.weight_global_scale", {4}, kScale}}),
              HasSubstr("float32 [4], expected one float32 number"));
  for (const float number : {0.0F, -1.0F, std::numeric_limits<float>::infinity()})
    EXPECT_THAT(error(float4_rows("a.weight", kCodes, "a.weight_scale_2", number)),
                AllOf(HasSubstr("a.weight_scale_2 (model.safetensors)"), HasSubstr("positive number")));
}

TEST_F(QuantisedTensors, travel_to_other_ranks_unchanged) {
  const CheckpointIndex read_here =
      read({{"b.weight", {9, 7}, kCodes}, {"b.weight_scale", {9, 1}, DType::kBFloat16}});
  const CheckpointIndex index = CheckpointIndex::from_bytes(read_here.to_bytes());
  EXPECT_EQ(index.encodings, read_here.encodings);
  const CheckpointIndex with_tensor_scale = read(float4_rows("a.weight", kCodes, "a.weight_scale_2", 0.1F));
  EXPECT_EQ(CheckpointIndex::from_bytes(with_tensor_scale.to_bytes()).encodings, with_tensor_scale.encodings);
  EXPECT_EQ(index.entries[0].encoding, 0);
  EXPECT_EQ(index.stored_bytes(index.entries[0]), 9 * 7 + 9 * 2);
}

TEST_F(QuantisedTensors, scales_and_weights_that_lack_each_other_are_named) {
  EXPECT_THAT(
      error({{"a.weight", {4, 4}, kCodes}}),
      AllOf(HasSubstr("65: "), HasSubstr("a.weight (model.safetensors)"), HasSubstr("a.weight_scale_inv")));
  EXPECT_THAT(error({{"a.weight_scale_inv", {1, 1}, kScale}}), HasSubstr("a.weight is missing"));
  EXPECT_THAT(error({{"a.weight", {4, 4}}, {"a.weight_scale", {1}, kScale}}),
              HasSubstr("a.weight_scale (model"));
  EXPECT_THAT(error({{"a.weight_packed", {4, 4}, DType::kInt32}}),
              AllOf(HasSubstr("a.weight_scale is missing"), HasSubstr("without a.weight_shape")));
  EXPECT_THAT(error({{"a.weight_shape", {2}, DType::kInt32}}), HasSubstr("a.weight_packed is missing"));
}

TEST_F(QuantisedTensors, grids_shapes_and_groups_that_do_not_fit_are_named_with_what_would) {
  EXPECT_THAT(error({{"a.weight", {576, 384}, kCodes}, {"a.weight_scale_inv", {4, 3}, kScale}}),
              AllOf(HasSubstr("[4, 3], expected [5, 3]"), HasSubstr("[576, 1] (for each row)")));
  EXPECT_THAT(error({{"a.weight", {40, 30}, kCodes}, {"a.weight_scale", {41, 1}, kScale}}),
              HasSubstr("a.weight_scale (model.safetensors) is [41, 1], expected [1, 1]"));
  EXPECT_THAT(error({{"a.weight", {40, 30}, kCodes}, {"a.weight_scale", {2}, kScale}}),
              AllOf(HasSubstr("is [2], expected"), HasSubstr("or [1]")));
  EXPECT_THAT(error({{"a.weight", {40, 30}, kCodes}, {"a.weight_scale_inv", {40, 1}, kScale}},
                    R"({"quant_method": "fp8", "weight_block_size": [16, 24]})"),
              AllOf(HasSubstr("[40, 1], expected [3, 2]"), HasSubstr("quantization_config says")));
  EXPECT_THAT(error({{"a.weight", {16}, kCodes}, {"a.weight_scale", {1}, kScale}}),
              HasSubstr("expected a matrix"));
  EXPECT_THAT(error({{"a.weight", {4, 4}, kCodes}, {"a.weight_scale", {1}, DType::kInt8}}),
              HasSubstr("is int8, expected float32"));
}

/// Words of 4-bit numbers, scales, and the shape that is told for both.
std::vector<FileTensor> packed(const std::vector<std::int64_t>& scales, std::string shape) {
  return {{"a.weight_packed", {4, 12}, DType::kInt32},
          {"a.weight_scale", scales, DType::kBFloat16},
          {"a.weight_shape", {2}, DType::kInt32, std::move(shape)}};
}

TEST_F(QuantisedTensors, a_shape_of_packed_weights_that_disagrees_is_named) {
  EXPECT_THAT(error(packed({4, 3}, std::string("\4\0\0\0\141\0\0\0", 8))),
              AllOf(HasSubstr("65: "), HasSubstr("a.weight_shape (model.safetensors) says [4, 97]"),
                    HasSubstr("a.weight_packed (model.safetensors) holds [4, 96]")));
  std::vector<FileTensor> wrong_type = packed({4, 3}, "");
  wrong_type[2].dtype = kScale;
  EXPECT_THAT(error(wrong_type),
              HasSubstr("a.weight_shape (model.safetensors) is float32 [2], expected int32 or int64 [2]"));
  wrong_type[2] = {"a.weight_shape", {1, 2}, DType::kInt64};
  EXPECT_THAT(error(wrong_type), HasSubstr("is int64 [1, 2], expected"));
}

TEST_F(QuantisedTensors, groups_of_packed_weights_that_do_not_divide_are_named) {
  const std::string shape("\4\0\0\0\140\0\0\0", 8);
  EXPECT_EQ(read(packed({4, 3}, shape)).entries[0].shape, (std::vector<std::int64_t>{4, 96}));
  const std::vector<std::vector<std::int64_t>> grids{{4, 5}, {4, 24}, {5, 3}, {12}};
  for (const auto& grid : grids)
    EXPECT_THAT(
        error(packed(grid, shape)),
        AllOf(HasSubstr("65: "), HasSubstr("a.weight_scale (model.safetensors) is " + shape_text(grid)),
              HasSubstr("a multiple of 8"), HasSubstr("which is [4, 96]"), HasSubstr("Likely cause")));
  const std::string config = R"({"quant_method": "compressed-tensors", "config_groups":
      {"g": {"weights": {"num_bits": 4, "type": "int", "group_size": 16}}}})";
  EXPECT_THAT(error(packed({4, 3}, shape), config),
              AllOf(HasSubstr("groups of 32"), HasSubstr("group_size 16")));
}

TEST_F(QuantisedTensors, a_config_that_names_another_form_is_refused) {
  const std::string fp8 = R"({"quant_method": "fp8"})";
  EXPECT_THAT(error({{"a.weight", {4, 4}}}, fp8),
              AllOf(HasSubstr("65: "), HasSubstr("weights in FP8"), HasSubstr("hold none")));
  const std::string int4 =
      R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4, )"
      R"("type": "int"}}}})";
  EXPECT_THAT(error({{"a.weight", {4, 4}, kCodes}, {"a.weight_scale", {1}, kScale}}, int4),
              AllOf(HasSubstr("no weights in FP8"), HasSubstr("first a.weight (model.safetensors)"),
                    HasSubstr("weights in INT4"), HasSubstr("Likely cause")));
  EXPECT_THAT(error(packed({4, 3}, std::string("\4\0\0\0\140\0\0\0", 8)), R"({"quant_method": "mxfp4"})"),
              AllOf(HasSubstr("no weights in INT4"), HasSubstr("first a.weight_packed (model.safetensors)"),
                    HasSubstr("weights in MXFP4")));
}

TEST_F(QuantisedTensors, forms_that_are_not_read_are_named_with_what_to_use) {
  const auto refused = [&](const std::vector<FileTensor>& tensors, const std::string& form) {
    EXPECT_THAT(error(tensors), AllOf(HasSubstr("65: "), HasSubstr(form), HasSubstr("1 tensor, "),
                                      HasSubstr("bfloat16, FP8")));
  };
  refused({{"a.qweight", {4, 4}, DType::kInt32}, {"a.scales", {4}}}, "GPTQ or AWQ");
  refused({{"a.qzeros", {4, 4}, DType::kInt32}}, "GPTQ or AWQ");
  refused({{"a.g_idx", {4}, DType::kInt32}}, "g_idx");
  refused({{"a.weight_g_idx", {4}, DType::kInt32}}, "g_idx");
  refused({{"a.weight_zero_point", {4, 1}, DType::kInt32}}, "zero points");
  for (const char* name :
       {"a.weight.absmax", "a.weight.quant_map", "a.SCB", "a.weight.quant_state.bitsandbytes__nf4"})
    refused({{name, {4}, DType::kUInt8}}, "bitsandbytes");
  for (const char* name : {"a.bitmask", "a.compressed"})
    refused({{name, {4}, DType::kUInt8}}, "sparse weights");
  refused({{"a.weight", {4, 4}, DType::kFloat8E5M2}}, "float8_e5m2");
  refused({{"a.weight", {4, 4}, DType::kInt8}, {"a.weight_scale", {4, 1}, kScale}}, "int8");
  refused({{"a.pre_quant_scale", {4}}}, "pre_quant_scale");
  refused({{"a.experts.down_proj_pre_quant_scale", {4}}}, "pre_quant_scale");
  refused({{"a.input_quantizer._amax", {4}}}, "amax");
  for (const char* name : {"a.input_zero_point", "a.k_zero_point", "a.experts.up_proj_zero_point"})
    refused({{name, {1}, DType::kInt8}}, "zero points");
  EXPECT_EQ(error({{"visual.a.input_zero_point", {1}, DType::kInt8}}), "");
}

TEST_F(QuantisedTensors, an_open_config_leaves_it_to_the_files) {
  const std::vector<FileTensor> fp8{{"a.weight", {4, 4}, kCodes}, {"a.weight_scale", {1}, kScale}};
  for (const char* config :
       {R"({"bits": 4})", R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"})",
        R"({"quant_method": "modelopt", "quant_algo": null, "kv_cache_quant_algo": "FP8"})",
        R"({"quant_method": "modelopt_fp4", "quant_algo": "NVFP4"})", R"({"quant_algo": "W4A16_NVFP4"})",
        R"({"quant_method": "compressed-tensors", "config_groups": {}})"}) {
    EXPECT_EQ(error(fp8, config), "") << config;
    EXPECT_EQ(error({{"a.weight", {4, 4}}}, config), "") << config;
  }
  EXPECT_THAT(error(fp8, R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})"),
              HasSubstr("no weights in FP8"));
}

TEST_F(QuantisedTensors, scales_of_activations_and_caches_stay_apart) {
  const CheckpointIndex index = read({{"a.weight", {4, 4}, kCodes},
                                      {"a.weight_scale", {}, kScale},
                                      {"a.input_scale", {}, kScale},
                                      {"a.input_global_scale", {1}, kScale},
                                      {"a.activation_scale", {}, kScale},
                                      {"a.k_scale", {}, kScale},
                                      {"a.kv_scale", {}, kScale},
                                      {"a.q_scale", {}, kScale},
                                      {"a.prob_scale", {}, kScale},
                                      {"a.prob_output_scale", {}, kScale},
                                      {"a.output_scale", {}, kScale},
                                      {"a.experts.gate_up_proj_input_scale", {2}, kScale},
                                      {"a.experts.down_proj_activation_scale", {2}, kScale},
                                      {"a.v_scale", {}, kScale}});
  ASSERT_EQ(index.entries.size(), 13U);
  for (const CheckpointEntry& entry : index.entries)
    EXPECT_EQ(ignored_key(entry.name).has_value(), entry.name != "a.weight") << entry.name;
}

}  // namespace
}  // namespace sluice
