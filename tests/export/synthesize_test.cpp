#include "export/synthesize.hpp"

#include "shard/initial_values.hpp"
#include "weights/checkpoint_match.hpp"
#include "weights/entry_reader.hpp"
#include "weights/tiny_model.hpp"

#include "io/file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>

namespace sluice {
namespace {

using test::error_of;
using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

class SynthesizeTest : public testing::Test {
 protected:
  fs::path out() const { return directory_.path() / "model"; }
  fs::path beside(const char* name) const { return directory_.path() / name; }
  SynthesizeReport run(const SynthesizeOptions& options) const {
    return synthesize_checkpoint(keys_, out(), options);
  }

  test::TemporaryDirectory directory_;
  ParameterManifest manifest_ = test::manifest_of({.layers = 2, .dense_layers = {1}});
  KeyMap keys_{manifest_};
};

TEST_F(SynthesizeTest, writes_one_file_that_matches_the_model) {
  const SynthesizeReport report = run({});
  EXPECT_EQ(report.files, 1);
  EXPECT_EQ(report.bytes, manifest_.parameter_count() * 2);
  const CheckpointIndex index = read_checkpoint_index(out());
  EXPECT_EQ(index.entries.size(), static_cast<std::size_t>(report.tensors));
  static_cast<void>(match_checkpoint(index, keys_, DType::kBFloat16));
}

TEST_F(SynthesizeTest, cuts_files_at_the_given_size_and_indexes_them) {
  const SynthesizeReport report = run({.max_shard_bytes = 100'000, .experts = ExpertLayout::kFused});
  EXPECT_GT(report.files, 3);
  const CheckpointIndex index = read_checkpoint_index(out());
  EXPECT_TRUE(index.warnings.empty());
  EXPECT_EQ(index.files.size(), static_cast<std::size_t>(report.files));
  EXPECT_EQ(index.files[0].name, fmt::format("model-00001-of-{:05}.safetensors", report.files));
  EXPECT_EQ(match_checkpoint(index, keys_, DType::kBFloat16).experts, ExpertLayout::kFused);
}

TEST_F(SynthesizeTest, writes_the_initial_values_of_each_expert) {
  run({.standard_deviation = 0.5f, .seed = 9});
  const CheckpointIndex index = read_checkpoint_index(out());
  const auto entry =
      std::ranges::find(index.entries, "model.layers.0.mlp.experts.3.up_proj.weight", &CheckpointEntry::name);
  ASSERT_NE(entry, index.entries.end());
  std::vector<std::uint16_t> found(48 * 64);
  InputFile::open(out() / "model.safetensors")
      .read_at(entry->begin, std::as_writable_bytes(std::span(found)));
  std::vector<float> expected(found.size());
  const TensorInfo& experts = manifest_[*manifest_.find("model.layers.0.mlp.experts.gate_up_proj")];
  initial_values(experts, 0.5f, 9, (3 * 96 + 48) * 64, 48 * 64, expected.data());
  EXPECT_TRUE(std::ranges::equal(found, expected, {}, {}, bfloat16_bits));
}

TEST_F(SynthesizeTest, stores_weights_in_the_form_that_is_asked_for) {
  struct Form {
    const char* config;
    const char* text;  // text that names the encoding
    float step;        // step of the codes, as a share of the largest magnitude
  };
  const std::vector<Form> forms{
      {R"({"quant_method": "fp8", "weight_block_size": [16, 32]})", "float8_e4m3fn in blocks of 16 x 32",
       1.0F / 8},
      {R"({"quant_method": "fp8"})", "float8_e4m3fn by row", 1.0F / 8},
      {R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 16}}}})",
       "int4 in groups of 16", 1.0F / 7},
      {R"({"quant_method": "mxfp8"})", "float8_e4m3fn in blocks of 1 x 32", 1.0F / 8},
      {R"({"quant_method": "mxfp4"})", "mxfp4 in groups of 32", 1.0F / 2},
      {R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})", "nvfp4 in groups of 16", 1.0F / 2}};
  fs::create_directory(beside("source"));
  for (const Form& form : forms) {
    SCOPED_TRACE(form.text);
    fs::remove_all(out());
    fs::remove(beside("source") / "config.json");
    test::write_file(beside("source") / "config.json",
                     fmt::format("{{\"quantization_config\": {}}}", form.config));
    run({.max_shard_bytes = 50'000,
         .quantization = read_quantization(beside("source")),
         .companions = companion_files(beside("source"), WeightStorage::kAsConfigSays).files});
    CheckpointIndex index = read_checkpoint_index(out());
    static_cast<void>(match_checkpoint(index, keys_, DType::kBFloat16));
    EntryReader reader(index, out());
    std::size_t tensors = 0;
    for (const CheckpointEntry& entry : index.entries) {
      const Encoding* const encoding = index.encoding_of(entry);
      if (encoding == nullptr) continue;
      ++tensors;
      EXPECT_EQ(encoding->text(), form.text);
      EXPECT_TRUE(entry.name.find("_proj") != std::string::npos) << entry.name;
      std::vector<std::uint16_t> found(static_cast<std::size_t>(element_count(entry.shape)));
      reader.read(entry, {0, std::ssize(found)}, std::as_writable_bytes(std::span(found)));
      const KeyTarget target = std::get<KeyTarget>(keys_.resolve(entry.name, true));
      std::vector<float> expected(found.size());
      initial_values(manifest_[target.tensor()], 0.02f, 0, target.ranges.front().begin, std::ssize(found),
                     expected.data());
      const auto [low, high] = std::ranges::minmax(expected);
      const float most = std::max(-low, high) * form.step * 0.51F;
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(bfloat16_value(found[i]), expected[i], most) << entry.name;
    }
    EXPECT_GE(tensors, 16u);  // two projections of each expert, or more
  }
}

TEST_F(SynthesizeTest, leaves_modules_plain_that_the_config_names) {
  fs::create_directory(beside("source"));
  for (
      const char* config :
      {R"({"quant_method": "fp8", "modules_to_not_convert": ["model.layers.*.self_attn"]})",
       R"({"quant_method": "fp8", "ignored_layers": ["model.layers.*.self_attn"]})",
       R"({"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["re:.*self_attn"], "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}})"}) {
    fs::remove_all(out());
    fs::remove(beside("source") / "config.json");
    test::write_file(beside("source") / "config.json",
                     fmt::format("{{\"quantization_config\": {}}}", config));
    run({.quantization = read_quantization(beside("source")),
         .companions = companion_files(beside("source"), WeightStorage::kAsConfigSays).files});
    const CheckpointIndex index = read_checkpoint_index(out());
    for (const CheckpointEntry& entry : index.entries) {
      if (entry.name.find("_proj") == std::string::npos) continue;
      EXPECT_EQ(index.encoding_of(entry) == nullptr, entry.name.find("self_attn") != std::string::npos)
          << entry.name << " with " << config;
    }
  }
}

TEST_F(SynthesizeTest, sparse_files_have_full_length_and_no_blocks) {
  const ParameterManifest large = test::manifest_of({.hidden = 1024, .layers = 1, .vocabulary = 50'000});
  synthesize_checkpoint(KeyMap(large), out(), {.sparse = true});
  const CheckpointIndex index = read_checkpoint_index(out());
  EXPECT_GT(index.files[0].bytes, 200'000'000);
  EXPECT_EQ(index.entries.back().begin + index.entries.back().bytes, index.files[0].bytes);
  struct stat status {};
  ASSERT_EQ(::stat((out() / "model.safetensors").c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 1'000'000);
}

TEST_F(SynthesizeTest, copies_companions_and_leaves_nothing_else) {
  fs::create_directory(beside("source"));
  for (const char* name : {"config.json", "tokenizer.json", "pytorch_model.bin"})
    test::write_file(beside("source") / name, name);
  run({.companions = companion_files(beside("source")).files});
  EXPECT_EQ(read_text_file(out() / "tokenizer.json", 100), "tokenizer.json");
  EXPECT_TRUE(fs::exists(out() / "config.json"));
  EXPECT_FALSE(fs::exists(out() / "pytorch_model.bin"));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), {}), 2);
}

TEST_F(SynthesizeTest, refuses_a_target_that_holds_something) {
  fs::create_directory(out());
  test::write_file(out() / "precious", "x");
  EXPECT_THAT(error_of([&] { run({}); }), StartsWith("64: "));
  fs::remove(out() / "precious");
  run({});
  EXPECT_TRUE(fs::exists(out() / "model.safetensors"));
}

TEST_F(SynthesizeTest, removes_what_it_has_written_when_it_fails) {
  EXPECT_THAT(error_of([&] {
                run({.companions = {{beside("absent.json"), "absent.json"}}});
              }),
              HasSubstr("absent.json"));
  EXPECT_TRUE(fs::is_empty(directory_.path()));
}

}  // namespace
}  // namespace sluice
