#include "train/debug_dump.hpp"

#include "model/small_model.hpp"
#include "support/mpi_test.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace sluice {
namespace {

/// Element i of tensor t.
float value_of(int tensor, std::int64_t i) { return static_cast<float>(tensor * 10'000 + i); }

void fill(ShardArena& arena) {
  auto* values = reinterpret_cast<float*>(arena.data());
  for (const FlatLayout& unit : arena.plan().layouts().units)
    for (const Placement& placement : unit.placements())
      arena.plan().owned_runs(placement.tensor, arena.rank(), [&](const ShardPlan::OwnedRun& run) {
        for (std::int64_t i = 0; i < run.count; ++i)
          values[run.arena_begin + i] = value_of(placement.tensor, run.tensor_begin + i);
      });
}

void expect_whole(const hdf5::File& file, const std::string& group, int tensor, const TensorInfo& info) {
  const hdf5::Dataset dataset = file.dataset(group + "/" + info.name);
  EXPECT_EQ(dataset.shape(), info.shape) << info.name;
  const std::vector<float> values = dataset.read<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], value_of(tensor, static_cast<std::int64_t>(i))) << info.name;
}

TEST(DebugDump, writes_shards_as_whole_tensors_and_no_tie_twice) {
  Communicator& comm = test::test_world();
  const test::SmallModel model(
      nlohmann::json::object({{"tie_word_embeddings", true}, {"mlp_only_layers", {0}}}));
  const ParameterManifest& manifest = model.description.manifest;
  const ShardPlan plan(model.layouts, {.world = comm.size()});
  ShardArena arena(plan, comm.rank(), DType::kFloat32, MemoryKind::kPrivate, "gradients");
  fill(arena);
  const test::TemporaryDirectory directory;
  DebugDump dump(comm, manifest, directory / "dump.h5");
  dump.write_shards("/grad", ArenaValues(arena));
  dump.write_shards("/train/final", ArenaValues(arena));
  if (comm.rank() != 0) return;
  const hdf5::File file = hdf5::File::open(directory / "dump.h5");
  EXPECT_EQ(file.children("/grad").size(), manifest.stored_tensors().size());
  for (const int tensor : manifest.stored_tensors())
    for (const char* group : {"/grad", "/train/final"}) expect_whole(file, group, tensor, manifest[tensor]);
}

TEST(DebugDump, writes_scalars_and_tensors_of_rank_0) {
  Communicator& comm = test::test_world();
  const test::SmallModel model;
  const test::TemporaryDirectory directory;
  DebugDump dump(comm, model.description.manifest, directory / "dump.h5");
  dump.write_scalar("/loss", 1.5);
  dump.write_tensor("/logits", at::arange(6, at::kBFloat16).view({2, 3}).t());
  dump.flush();
  if (comm.rank() != 0) return;
  const hdf5::File file = hdf5::File::open(directory / "dump.h5");
  EXPECT_EQ(file.dataset("/loss").read<double>(), std::vector<double>{1.5});
  EXPECT_EQ(file.dataset("/logits").shape(), (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(file.dataset("/logits").read<float>(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

}  // namespace
}  // namespace sluice
