// Adapters that PEFT saved, on their way into shards, into the weights, and back
// (tests/fixtures/make_lora.py).
#include "adapter/adapter_load.hpp"
#include "adapter/adapter_save.hpp"
#include "adapter/merge.hpp"
#include "io/file.hpp"
#include "io/hdf5.hpp"
#include "io/safetensors.hpp"
#include "load/checkpoint_load.hpp"
#include "manifest/adapter.hpp"
#include "model/architecture.hpp"
#include "support/expect_error.hpp"
#include "support/mpi_test.hpp"
#include "support/shared_directory.hpp"
#include "support/source_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using test::test_world;

const fs::path kFixtures = fixture_folder();

ParameterManifest adapted(ParameterManifest manifest, const AdapterDescription& adapters) {
  add_adapters(manifest, adapters);
  return manifest;
}

/// A model and an adapter of it, neither of which has values yet.
struct Model {
  Model(const fs::path& base, const fs::path& adapter_directory, int expert_parallel = 0)
      : description(describe_model(base, DType::kBFloat16)),
        adapter(read_peft_adapter(adapter_directory, description.manifest)),
        manifest(adapted(description.manifest, adapter.adapters)),
        shards(layouts, {test_world().size(), expert_parallel == 0 ? test_world().size() : expert_parallel}) {
  }

  /// This rank's adapters.
  [[nodiscard]] ShardArena load(std::int64_t chunk_bytes = 8 * kMiB) const {
    ShardArena arena(shards, test_world().rank(), DType::kFloat32, MemoryKind::kPrivate, "adapter",
                     ShardArena::Units::kTrained);
    load_adapter(test_world(), adapter, manifest, arena, chunk_bytes);
    return arena;
  }

  ModelDescription description;
  PeftAdapter adapter;
  ParameterManifest manifest;
  UnitLayouts layouts = make_unit_layouts(manifest);
  ShardPlan shards;
};

/// The weights alone, in shards of their own.
struct Base {
  Base(const Model& model, const fs::path& directory)
      : manifest(model.description.manifest), shards(layouts, model.shards.dims()) {
    const KeyMap keys(manifest);
    const LoadPlanOptions options{.readers = ReaderAssignment::rank0(test_world().size())};
    const PlannedLoad planned = plan_load(test_world(), {directory, keys, shards, options});
    load_checkpoint(test_world(), planned, directory, &weights, {});
  }
  const ParameterManifest& manifest;
  UnitLayouts layouts = make_unit_layouts(manifest);
  ShardPlan shards;
  ShardArena weights{shards, test_world().rank(), DType::kBFloat16, MemoryKind::kPrivate, "weights"};
};

std::vector<std::byte> bytes_of(const ShardArena& arena) {
  return {arena.data(), arena.data() + arena.bytes()};
}

std::vector<std::byte> content_of(const fs::path& path) {
  const InputFile file = InputFile::open(path);
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.size_bytes()));
  file.read_at(0, bytes);
  return bytes;
}

/// The difference of two bfloat16 numbers in units of the last place of the larger one.
double ulps(float a, float b) {
  int exponent = 0;
  std::frexp(std::max(std::abs(a), std::abs(b)), &exponent);
  return std::abs(a - b) / std::ldexp(1.0, exponent - 8);
}

struct Difference {
  std::int64_t compared = 0;
  std::int64_t other = 0;  ///< other bits
  double largest_ulps = 0;
};

/// What this rank has of a weight against all of it.
void compare(const Base& base, int tensor, const std::vector<std::int32_t>& expected,
             Difference& difference) {
  base.shards.owned_runs(tensor, test_world().rank(), [&](const ShardPlan::OwnedRun& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, base.weights.data() + (run.arena_begin + i) * 2, sizeof(bits));
      const auto wanted =
          static_cast<std::uint16_t>(expected[static_cast<std::size_t>(run.tensor_begin + i)]);
      ++difference.compared;
      if (bits == wanted) continue;
      ++difference.other;
      difference.largest_ulps =
          std::max(difference.largest_ulps, ulps(bfloat16_value(bits), bfloat16_value(wanted)));
    }
  });
}

/// Every weight of reference.h5's merged/ against the shards of all ranks.
Difference compare_with_peft(const Base& base, const fs::path& reference) {
  const hdf5::File file = hdf5::File::open(reference);
  Difference difference;
  for (int i = 0; i < static_cast<int>(base.manifest.tensors().size()); ++i) {
    const TensorInfo& tensor = base.manifest[i];
    const std::string path = "/merged/" + tensor.name;
    if (!file.exists(path)) continue;
    std::vector<std::int32_t> expected(static_cast<std::size_t>(tensor.element_count()));
    file.dataset(path).read<std::int32_t>({std::vector<std::int64_t>(tensor.shape.size(), 0), tensor.shape},
                                          expected);
    compare(base, i, expected, difference);
  }
  return difference;
}

class PeftFixture : public testing::TestWithParam<std::pair<std::string, std::string>> {
 protected:
  [[nodiscard]] static fs::path base() { return kFixtures / GetParam().second; }
  [[nodiscard]] static fs::path directory() { return kFixtures / "lora" / GetParam().first; }
};

TEST_P(PeftFixture, merged_it_is_what_peft_merges_to_rounding) {
  for (const int expert_parallel : {0, 1}) {
    for (const std::int64_t staging : {16 * kKiB, 8 * kMiB}) {
      const Model model(base(), directory(), expert_parallel);
      const ShardArena adapter = model.load();
      Base weights(model, base());
      merge_adapters(test_world(), model.manifest, ArenaValues(adapter), weights.weights, staging);
      const Difference difference = compare_with_peft(weights, directory() / "reference.h5");
      std::array<std::int64_t, 2> sums{difference.compared, difference.other};
      test_world().all_reduce_sum(sums);
      EXPECT_GT(sums[0], 4000);
      // Sums of a few products in another order: now and then one falls on the other side of a half.
      EXPECT_LE(difference.largest_ulps, 1.0);
      EXPECT_LT(static_cast<double>(sums[1]), 0.002 * static_cast<double>(sums[0]));
    }
  }
}

TEST_P(PeftFixture, the_pieces_of_the_way_in_do_not_matter) {
  const Model model(base(), directory());
  EXPECT_EQ(bytes_of(model.load(16 * kKiB)), bytes_of(model.load()));
}

TEST_P(PeftFixture, what_is_written_is_read_back) {
  const test::SharedDirectory place;
  const Model model(base(), directory());
  const ShardArena values = model.load();
  const fs::path written = place / "adapter";
  save_adapter(test_world(), model.adapter.adapters, model.manifest, ArenaValues(values), written,
               {.style = model.adapter.style, .base_model = "base", .chunk_bytes = 16 * kKiB});
  test_world().barrier();
  const Model again(base(), written);
  EXPECT_EQ(again.adapter.adapters.tensors.size(), model.adapter.adapters.tensors.size());
  for (std::size_t i = 0; i < model.adapter.adapters.tensors.size(); ++i) {
    const AdaptedTensor& before = model.adapter.adapters.tensors[i];
    const AdaptedTensor& after = again.adapter.adapters.tensors[i];
    EXPECT_EQ(after.base, before.base);
    EXPECT_EQ(after.rank, before.rank) << before.base;
    EXPECT_NEAR(after.scale, before.scale, 1e-12) << before.base;
  }
  EXPECT_EQ(bytes_of(again.load()), bytes_of(values));
  test_world().barrier();
}

INSTANTIATE_TEST_SUITE_P(, PeftFixture,
                         testing::Values(std::pair{"qwen3-moe", "qwen3-moe-tiny"},
                                         std::pair{"qwen3_5-moe", "qwen3_5-moe-tiny"},
                                         std::pair{"qwen3-moe-down", "qwen3-moe-tiny"},
                                         std::pair{"per-expert", "qwen3-moe-tiny"},
                                         std::pair{"by-position", "qwen3-moe-tiny"}),
                         [](const auto& fixture) {
                           std::string name = fixture.param.first;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// Every tensor of a safetensors file: its shape and its bytes.
std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<std::byte>>> tensors_of(
    const fs::path& path) {
  std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<std::byte>>> out;
  const std::vector<std::byte> bytes = content_of(path);
  for (const SafetensorsEntry& entry : read_safetensors_header(InputFile::open(path)).entries)
    out[entry.name] = {entry.shape, {bytes.begin() + entry.begin, bytes.begin() + entry.begin + entry.bytes}};
  return out;
}

TEST(AdapterSave, writes_the_tensors_that_peft_wrote_bit_for_bit) {
  for (const auto& [name, base] :
       {std::pair{"qwen3-moe", "qwen3-moe-tiny"}, std::pair{"qwen3_5-moe", "qwen3_5-moe-tiny"},
        std::pair{"qwen3-moe-down", "qwen3-moe-tiny"}}) {
    const test::SharedDirectory place;
    const fs::path directory = kFixtures / "lora" / name;
    const Model model(kFixtures / base, directory);
    const ShardArena values = model.load();
    save_adapter(test_world(), model.adapter.adapters, model.manifest, ArenaValues(values), place / "adapter",
                 {});
    test_world().barrier();
    auto expected = tensors_of(directory / kPeftWeightsFile);
    expected.erase("base_model.model.lm_head.base_layer.weight");
    EXPECT_EQ(tensors_of(place / "adapter" / kPeftWeightsFile), expected) << name;
    test_world().barrier();
  }
}

TEST(AdapterLoad, a_file_that_has_changed_since_is_refused_on_every_rank) {
  const test::SharedDirectory place;
  const fs::path copy = place / "adapter";
  if (test_world().rank() == 0) fs::copy(kFixtures / "lora/qwen3-moe-down", copy);
  test_world().barrier();
  const Model model(kFixtures / "qwen3-moe-tiny", copy);
  test_world().barrier();
  if (test_world().rank() == 0) fs::resize_file(copy / kPeftWeightsFile, 9000);
  test::expect_error(ExitCode::kBadData, {"adapter_model.safetensors", "9000", "its header"},
                     [&] { static_cast<void>(model.load()); });
  test_world().barrier();
}

}  // namespace
}  // namespace sluice
