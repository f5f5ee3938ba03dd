// Steps that an earlier version saved on three ranks (tests/fixtures/saved), on their way into the memory of
// others.
#include "checkpoint/restore.hpp"
#include "checkpoint/saved_step.hpp"
#include "checkpoint/state_spans.hpp"
#include "checkpoint/step_directory.hpp"
#include "io/file.hpp"
#include "io/safetensors.hpp"
#include "manifest/adapter.hpp"
#include "model/architecture.hpp"
#include "support/mpi_test.hpp"
#include "support/source_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using test::test_world;

/// All files of a saved step, by the names in their headers alone: TENSOR/ARRAY[begin:end] are bytes of
/// numbers.
class Numbers {
 public:
  explicit Numbers(const fs::path& step) {
    for (const auto& file : fs::directory_iterator(step))
      if (file.path().extension() == ".safetensors") add(file.path());
  }

  /// Bytes of the numbers of a span, which are taken from wherever they lie.
  [[nodiscard]] std::string of(const std::string& tensor, const StateSpan& span) const {
    const std::int64_t size = size_of(span.dtype);
    std::string bytes(static_cast<std::size_t>(span.bytes()), '\0');
    std::int64_t found = 0;
    for (const auto& [range, text] : parts_.at(tensor + "/" + std::string(span.array))) {
      const std::int64_t begin = std::max(range.begin, span.numbers.begin);
      const std::int64_t end = std::min(range.end, span.numbers.end);
      if (begin >= end) continue;
      const auto length = static_cast<std::size_t>((end - begin) * size);
      bytes.replace(static_cast<std::size_t>((begin - span.numbers.begin) * size), length, text,
                    static_cast<std::size_t>((begin - range.begin) * size), length);
      found += end - begin;
    }
    EXPECT_EQ(found, span.numbers.count()) << tensor << "/" << span.array;
    return bytes;
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  void add(const fs::path& path) {
    const std::string text = read_text_file(path, kMiB);
    for (const SafetensorsEntry& entry : read_safetensors_header(InputFile::open(path)).entries) {
      const std::size_t bracket = entry.name.rfind('[');
      Range range;
      const char* const end = entry.name.data() + entry.name.size();
      const auto [colon, error] = std::from_chars(entry.name.data() + bracket + 1, end, range.begin);
      ASSERT_EQ(error, std::errc()) << entry.name;
      std::from_chars(colon + 1, end, range.end);
      parts_[entry.name.substr(0, bracket)].emplace_back(
          range, text.substr(static_cast<std::size_t>(entry.begin), static_cast<std::size_t>(entry.bytes)));
      bytes_ += entry.bytes;
    }
  }

  std::map<std::string, std::vector<std::pair<Range, std::string>>> parts_;
  std::int64_t bytes_ = 0;
};

/// Each number that a rank restores is that of the files, and the ranks restore all there are.
void expect_restored(const std::string& name, const OptimizerMode& mode, std::int64_t block,
                     const AdapterDescription& adapters) {
  const fs::path step = fixture_folder() / "saved" / name / "step-00000002";
  ParameterManifest manifest = describe_model(step, DType::kBFloat16).manifest;
  if (!adapters.empty()) add_adapters(manifest, adapters);
  const UnitLayouts layouts = make_unit_layouts(manifest, block);
  const ShardPlan plan(layouts, {test_world().size(), 1});
  const ShardArena weights(plan, test_world().rank(), DType::kBFloat16, MemoryKind::kPrivate, "weights");
  const OptimizerLayout layout(manifest, plan, test_world().rank(), mode, DType::kBFloat16);
  const MemoryBlock state = allocate(MemoryKind::kPrivate, layout.bytes(), "state");
  const std::vector<StateSpan> spans = list_state(manifest, weights, {&layout, mode, state.data()});
  restore_step(test_world(), read_saved_step(step), step, manifest, spans);
  const Numbers saved(step);
  std::array<std::int64_t, 1> restored{};
  for (const StateSpan& span : spans) {
    const std::string& tensor = manifest[span.tensor].name;
    EXPECT_TRUE(std::string(reinterpret_cast<const char*>(span.data),
                            static_cast<std::size_t>(span.bytes())) == saved.of(tensor, span))
        << tensor << "/" << span.array;
    if (!span.is_copy) restored[0] += span.bytes();
  }
  test_world().all_reduce_sum(std::span<std::int64_t>(restored));
  EXPECT_EQ(restored[0], saved.bytes());
}

TEST(EarlierFormat, a_training_comes_back_bit_for_bit) {
  expect_restored("training", {OptimizerKind::kAdamW, StateFormat::kInt8, MasterFormat::k24Bit}, kStateBlock,
                  {});
}

TEST(EarlierFormat, an_adapter_comes_back_bit_for_bit) {
  const fs::path step = fixture_folder() / "saved/adapter/step-00000002";
  expect_restored("adapter", {OptimizerKind::kAdamW, StateFormat::kFloat32, MasterFormat::kFloat32}, 1,
                  read_saved_step(step).adapters.description);
}

}  // namespace
}  // namespace sluice
