#include "load/streaming_loader.hpp"

#include "export/synthesize.hpp"
#include "shard/initial_values.hpp"
#include "support/mpi_test.hpp"
#include "support/shared_directory.hpp"
#include "support/source_folder.hpp"
#include "verify/checkpoint_content.hpp"
#include "verify/verify_shards.hpp"
#include "weights/entry_reader.hpp"
#include "weights/tiny_model.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace sluice {
namespace {

using test::test_world;
namespace fs = std::filesystem;

/// Everything between a manifest and a finished load, on all ranks.
class Loaded {
 public:
  Loaded(ParameterManifest manifest, const fs::path& directory, const LoadPlanOptions& plan,
         LoadOptions options = {}, std::byte before = {}, int replicas = 1)
      : manifest_(std::move(manifest)),
        shards_(layouts_, {test_world().size() / replicas, 1, replicas}),
        index_(share_checkpoint_index(test_world(), directory)),
        plan_(index_, match_checkpoint(index_, keys_, plan.arena), shards_, plan),
        weights_(shards_, sets_.own().rank(), plan.arena, MemoryKind::kPrivate, "weights") {
    std::ranges::fill(std::span(weights_.data(), static_cast<std::size_t>(weights_.bytes())), before);
    options.baseline = sample_memory();
    report_ = load_shards(sets_, plan_, directory, plan.discard ? nullptr : &weights_, options);
  }

  [[nodiscard]] std::vector<std::byte> bytes() const {
    return {weights_.data(), weights_.data() + weights_.bytes()};
  }
  /// This rank's arena as the files say it must be.
  [[nodiscard]] std::vector<std::byte> expected(const fs::path& directory) const {
    const auto units = test::place_directly(
        index_, manifest_, layouts_, weights_.dtype(), [&](const CheckpointEntry& entry) {
          const std::int64_t count = element_count(entry.shape);
          std::vector<std::byte> bytes(static_cast<std::size_t>(count * size_of(entry.dtype)));
          EntryReader(index_, directory).read(entry, {0, count}, bytes);
          return bytes;
        });
    return test::arena_of(units, shards_, weights_.rank(), weights_.dtype());
  }
  [[nodiscard]] std::vector<std::byte> initialized(float standard_deviation, std::uint64_t seed) const {
    ShardArena arena(shards_, weights_.rank(), weights_.dtype(), MemoryKind::kPrivate, "weights");
    initialize_shards(arena, manifest_, standard_deviation, seed);
    return {arena.data(), arena.data() + arena.bytes()};
  }
  /// Digest of the content, which the arena and the files must have in common.
  [[nodiscard]] Digest verified(const fs::path& directory) const {
    const CheckpointMatch match = match_checkpoint(index_, keys_, weights_.dtype());
    return verify_shards(test_world(), weights_, manifest_, index_, match, directory).content;
  }
  [[nodiscard]] const CheckpointIndex& index() const { return index_; }
  [[nodiscard]] const LoadReport& report() const { return report_; }
  [[nodiscard]] const LoadPlan& plan() const { return plan_; }

 private:
  ParameterManifest manifest_;
  KeyMap keys_{manifest_};
  UnitLayouts layouts_ = make_unit_layouts(manifest_);
  ShardPlan shards_;
  RankSets sets_{test_world(), shards_.dims()};
  CheckpointIndex index_;
  LoadPlan plan_;
  ShardArena weights_;
  LoadReport report_;
};

LoadPlanOptions rank0_reads(DType arena, std::int64_t chunk_bytes) {
  return {
      .arena = arena, .chunk_bytes = chunk_bytes, .readers = ReaderAssignment::rank0(test_world().size())};
}

/// The ranks on two pretended nodes.
ReaderAssignment two_nodes() {
  std::vector<int> nodes;
  for (int rank = 0; rank < test_world().size(); ++rank) nodes.push_back(rank % 2);
  return ReaderAssignment::node(nodes);
}

/// A directory of all ranks, with a model that rank 0 makes.
class SharedModel {
 public:
  [[nodiscard]] fs::path model() const { return directory_ / "model"; }

  void synthesize(const ParameterManifest& manifest, const SynthesizeOptions& options) const {
    if (test_world().rank() == 0) synthesize_checkpoint(KeyMap(manifest), model(), options);
    test_world().barrier();
  }

 private:
  test::SharedDirectory directory_;
};

const std::array<std::pair<std::string, test::TinyModel>, 3> kFixtures{{
    {"qwen3-moe-tiny", {}},
    {"qwen3-moe-mixed", {.layers = 4, .experts = 7, .dense_layers = {1}}},
    {"qwen3-tiny-tied", {.experts = 0, .tied = true}},
}};

TEST(StreamingLoader, loads_the_fixtures_exactly) {
  for (const auto& [name, model] : kFixtures) {
    const fs::path directory = fixture_folder() / name;
    for (const DType arena : {DType::kBFloat16, DType::kFloat32}) {
      for (const std::int64_t chunk : {std::int64_t{4096}, 8 * kMiB}) {
        const Loaded loaded(test::manifest_of(model), directory, rank0_reads(arena, chunk));
        EXPECT_EQ(loaded.bytes(), loaded.expected(directory)) << name << " in " << name_of(arena);
      }
    }
  }
}

/// About 8 MB with moves far above LoadPlan::kLargeMoveBytes.
const test::TinyModel kLarger{
    .hidden = 256, .layers = 2, .experts = 6, .expert_width = 192, .vocabulary = 4096, .joined_groups = 2};

TEST(StreamingLoader, a_synthesized_checkpoint_loads_as_the_same_seed_initializes) {
  const ParameterManifest manifest = test::manifest_of(kLarger);
  const SharedModel directory;
  directory.synthesize(manifest, {.standard_deviation = 0.02f, .seed = 5, .max_shard_bytes = 2'000'000});
  for (const int slots : {1, 3}) {
    const Loaded loaded(manifest, directory.model(), rank0_reads(DType::kBFloat16, 300'000),
                        {.ring_slots = slots});
    EXPECT_EQ(loaded.bytes(), loaded.initialized(0.02f, 5));
  }
}

/// Loads a model of `stored` files by one reader in `replicas` sets of ranks.
void expect_copies(const fs::path& directory, const test::TinyModel& model, int replicas,
                   std::int64_t chunk) {
  LoadPlanOptions plan{.arena = DType::kBFloat16,
                       .chunk_bytes = chunk,
                       .readers = ReaderAssignment::rank0(test_world().size() / replicas),
                       .passes_on = replicas > 1};
  const Loaded loaded(test::manifest_of(model), directory, plan, {.ring_slots = 2}, {}, replicas);
  EXPECT_EQ(loaded.bytes(), loaded.expected(directory));
  std::int64_t read = 0;
  for (const RankLoad& rank : loaded.report().ranks) read += rank.read_bytes;
  EXPECT_EQ(read, loaded.plan().read_bytes()) << "one set reads";
  const std::int64_t all = loaded.plan().read_bytes() + 4096;  // beside it digests and reports
  for (const RankLoad& rank : loaded.report().ranks) {
    EXPECT_LE(rank.sent_bytes, all);
    EXPECT_LE(rank.received_bytes, all);
    EXPECT_LE(rank.peak_staging_bytes, loaded.plan().staging_bytes(0, 2));
  }
}

TEST(StreamingLoader, passes_on_from_set_to_set_so_that_each_link_carries_the_model_once) {
  for (const DType stored : {DType::kBFloat16, DType::kFloat32}) {
    test::TinyModel model = kLarger;
    model.dtype = stored;
    const SharedModel directory;
    directory.synthesize(test::manifest_of(model), {});
    for (int replicas = 1; replicas <= test_world().size(); ++replicas)
      if (test_world().size() % replicas == 0)
        for (const std::int64_t chunk : {std::int64_t{300'000}, 8 * kMiB})
          expect_copies(directory.model(), model, replicas, chunk);
  }
}

TEST(StreamingLoader, converts_large_moves_on_their_way_in) {
  test::TinyModel model = kLarger;
  for (const DType stored : {DType::kFloat32, DType::kFloat16}) {
    model.dtype = stored;
    const SharedModel directory;
    directory.synthesize(test::manifest_of(model), {});
    const Loaded loaded(test::manifest_of(model), directory.model(), rank0_reads(DType::kBFloat16, kMiB));
    EXPECT_EQ(loaded.bytes(), loaded.expected(directory.model()));
  }
}

TEST(StreamingLoader, transposes_experts_whoever_reads) {
  test::TinyModel model = kLarger;
  model.transposed = true;
  const ParameterManifest manifest = test::manifest_of(model);
  const SharedModel directory;
  directory.synthesize(manifest, {.standard_deviation = 0.02f, .seed = 7});
  for (const ReaderAssignment& readers : {ReaderAssignment::rank0(test_world().size()), two_nodes(),
                                          ReaderAssignment::all(test_world().size())})
    for (const DType arena : {DType::kBFloat16, DType::kFloat32}) {
      const Loaded loaded(manifest, directory.model(),
                          {.arena = arena, .chunk_bytes = 100'000, .readers = readers});
      EXPECT_EQ(loaded.bytes(), loaded.expected(directory.model()));
      if (arena == DType::kBFloat16) {
        EXPECT_EQ(loaded.bytes(), loaded.initialized(0.02f, 7));
      }
      const RankLoad& row = loaded.report().ranks[static_cast<std::size_t>(test_world().rank())];
      EXPECT_EQ(row.sent_bytes, loaded.plan().sent_bytes(test_world().rank()));
    }
}

TEST(StreamingLoader, loads_the_same_whoever_reads) {
  const SharedModel directory;
  directory.synthesize(test::manifest_of(kLarger), {.standard_deviation = 0.02f, .seed = 7});
  for (const ReaderAssignment& readers : {two_nodes(), ReaderAssignment::all(test_world().size())}) {
    for (const DType arena : {DType::kBFloat16, DType::kFloat32}) {
      const Loaded loaded(test::manifest_of(kLarger), directory.model(),
                          {.arena = arena, .chunk_bytes = 300'000, .readers = readers});
      EXPECT_EQ(loaded.bytes(), loaded.expected(directory.model()));
      for (int rank = 0; rank < test_world().size(); ++rank) {
        const RankLoad& row = loaded.report().ranks[static_cast<std::size_t>(rank)];
        EXPECT_EQ(row.read_bytes, loaded.plan().read_bytes(rank));
        EXPECT_EQ(row.sent_bytes, loaded.plan().sent_bytes(rank));
        EXPECT_EQ(row.read_bytes + row.received_bytes - row.sent_bytes, loaded.plan().payload_bytes(rank));
      }
    }
  }
}

/// With scales before, behind and apart from their weights; whose values tests/jobs/quantised_test.py holds
/// against the formula.
TEST(StreamingLoader, quantised_weights_arrive_as_the_numbers_that_they_stand_for) {
  for (const char* form : {"fp8-blocks", "fp8-rows", "fp8-tensor", "int4", "mxfp4"}) {
    const fs::path directory = fixture_folder() / ("qwen3-moe-tiny-" + std::string(form));
    const int ranks = test_world().size();
    for (const ReaderAssignment& readers :
         {ReaderAssignment::rank0(ranks), two_nodes(), ReaderAssignment::all(ranks)})
      for (const DType arena : {DType::kBFloat16, DType::kFloat32})
        for (const std::int64_t chunk : {std::int64_t{4096}, 8 * kMiB}) {
          SCOPED_TRACE(fmt::format("{} in {}, chunks of {}", form, name_of(arena), chunk));
          const Loaded loaded(test::manifest_of({}), directory,
                              {.arena = arena, .chunk_bytes = chunk, .readers = readers});
          EXPECT_EQ(loaded.bytes(), loaded.expected(directory));
          for (int rank = 0; rank < ranks; ++rank) {
            const RankLoad& row = loaded.report().ranks[static_cast<std::size_t>(rank)];
            EXPECT_EQ(row.read_bytes, loaded.plan().read_bytes(rank));
            EXPECT_EQ(row.read_bytes + row.received_bytes - row.sent_bytes,
                      loaded.plan().payload_bytes(rank));
            EXPECT_EQ(row.peak_staging_bytes, loaded.plan().staging_bytes(rank, kRingSlots));
          }
          if (chunk != 4096) continue;
          const ParameterManifest manifest = test::manifest_of({});
          EXPECT_EQ(loaded.verified(directory),
                    read_content(loaded.index(), directory, &manifest, {}).digest());
        }
  }
}

TEST(StreamingLoader, discards_without_an_arena) {
  const SharedModel directory;
  directory.synthesize(test::manifest_of(kLarger), {.standard_deviation = 0.02f, .seed = 7});
  LoadPlanOptions options = rank0_reads(DType::kBFloat16, kMiB);
  options.discard = true;
  const Loaded loaded(test::manifest_of(kLarger), directory.model(), options);
  for (int rank = 0; rank < test_world().size(); ++rank)
    EXPECT_EQ(loaded.report().ranks[static_cast<std::size_t>(rank)].peak_staging_bytes,
              loaded.plan().staging_bytes(rank, kRingSlots));
  const RankLoad& row = loaded.report().ranks[static_cast<std::size_t>(test_world().rank())];
  EXPECT_EQ(row.shard_bytes, 0);
  EXPECT_EQ(row.received_bytes,
            test_world().rank() == 0 ? 0 : loaded.plan().payload_bytes(test_world().rank()));
}

TEST(StreamingLoader, loads_holes_as_zeros) {
  const SharedModel directory;
  directory.synthesize(test::manifest_of(kLarger), {.sparse = true});
  const Loaded loaded(test::manifest_of(kLarger), directory.model(), rank0_reads(DType::kBFloat16, kMiB), {},
                      std::byte{0xa5});
  EXPECT_EQ(loaded.bytes(), std::vector<std::byte>(loaded.bytes().size()));
}

TEST(StreamingLoader, reports_what_the_plan_promised) {
  const SharedModel directory;
  directory.synthesize(test::manifest_of(kLarger), {});
  std::vector<LoadProgress> progress;
  const Loaded loaded(test::manifest_of(kLarger), directory.model(), rank0_reads(DType::kFloat32, kMiB),
                      {.ring_slots = 2, .progress = [&](const LoadProgress& p) { progress.push_back(p); }});
  const LoadPlan& plan = loaded.plan();
  const std::vector<RankLoad>& ranks = loaded.report().ranks;
  ASSERT_EQ(ranks.size(), static_cast<std::size_t>(test_world().size()));
  for (int rank = 0; rank < test_world().size(); ++rank) {
    const RankLoad& row = ranks[static_cast<std::size_t>(rank)];
    EXPECT_EQ(row.received_bytes, rank == 0 ? 0 : plan.payload_bytes(rank));
    EXPECT_EQ(row.sent_bytes, rank == 0 ? plan.sent_bytes(0) : 0);
    EXPECT_EQ(row.read_bytes, rank == 0 ? plan.read_bytes() : 0);
    EXPECT_EQ(row.shard_bytes, plan.shards().arena_elements(rank) * 4);
    EXPECT_EQ(row.peak_staging_bytes, plan.staging_bytes(rank, 2));
    EXPECT_GT(row.seconds, 0);
  }
  EXPECT_EQ(progress.size(), test_world().rank() == 0 ? plan.chunks().size() : 0);
  if (!progress.empty()) {
    EXPECT_EQ(progress.back().done_bytes, plan.read_bytes());
  }
}

TEST(StreamingLoader, every_rank_throws_the_error_of_the_index) {
  const std::string error =
      test::error_of([] { static_cast<void>(share_checkpoint_index(test_world(), "/nonexistent/model")); });
  EXPECT_EQ(error, "65: /nonexistent/model: no such directory");
}

}  // namespace
}  // namespace sluice
