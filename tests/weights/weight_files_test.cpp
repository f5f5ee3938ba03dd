#include "weights/weight_files.hpp"

#include "weights/tiny_model.hpp"

#include <gmock/gmock.h>

namespace sluice {
namespace {

namespace fs = std::filesystem;

SafetensorsEntry vector_of(const std::string& name, std::int64_t elements) {
  return {name, DType::kFloat32, {elements}, 0, 0};
}

TEST(WeightFiles, cuts_before_the_tensor_that_would_pass_the_limit) {
  const auto files =
      cut_into_files({vector_of("a", 10), vector_of("b", 15), vector_of("c", 1), vector_of("d", 99)}, 100);
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0].tensors.size(), 2U);
  EXPECT_EQ(files[1].name, "model-00002-of-00003.safetensors");
  EXPECT_EQ(files[2].tensors.front().name, "d");
  EXPECT_EQ(files[2].bytes - files[2].header_bytes, 99 * 4);
}

TEST(WeightFiles, headers_say_where_the_tensors_are) {
  const WeightFile file = cut_into_files({vector_of("a", 3), vector_of("b", 5)}, 1000).front();
  const std::string header = file.header();
  EXPECT_EQ(static_cast<std::int64_t>(header.size()), file.header_bytes);
  const SafetensorsHeader parsed = parse_safetensors_header(header.substr(8), file.bytes, "f");
  EXPECT_EQ(parsed.entries[1].begin, file.tensors[1].begin);
  EXPECT_EQ(parsed.metadata.at("format"), "pt");
}

TEST(WeightFiles, a_single_file_has_no_index) {
  const test::TemporaryDirectory directory;
  write_weight_index(directory.path(), cut_into_files({vector_of("a", 3)}, 1000));
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

}  // namespace
}  // namespace sluice
