#include "load/load_plan.hpp"

#include "weights/tiny_model.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

namespace sluice {
namespace {

using test::arena_of;
using test::place_directly;
using Bytes = std::vector<std::byte>;

/// A checkpoint whose files lie in memory: random layout, odd data starts, ignored tensors in between, random
/// bits.
struct MemoryCheckpoint {
  CheckpointIndex index;
  std::vector<Bytes> files;

  [[nodiscard]] Bytes bytes_of(const CheckpointEntry& entry) const {
    const auto begin = files[static_cast<std::size_t>(entry.file)].begin() + entry.begin;
    return {begin, begin + entry.bytes};
  }
};

DType pick_dtype(std::mt19937& random) {
  constexpr std::array kTypes{DType::kBFloat16, DType::kFloat32, DType::kFloat16};
  return kTypes[random() % kTypes.size()];
}

MemoryCheckpoint make_checkpoint(const KeyMap& keys, ExpertLayout layout, std::mt19937& random,
                                 bool mixed_types) {
  std::vector<PublishedTensor> tensors = keys.published(layout);
  if (random() % 2 == 0) std::ranges::shuffle(tensors, random);
  MemoryCheckpoint made;
  const std::size_t file_count = 1 + random() % 3;
  for (std::size_t f = 0; f < file_count; ++f) {
    made.files.emplace_back(3 + random() % 17);  // bytes of any length stand for the header
    const std::size_t first = tensors.size() * f / file_count;
    const std::size_t last = tensors.size() * (f + 1) / file_count;
    for (std::size_t i = first; i < last; ++i) {
      const auto add = [&](std::string name, std::vector<std::int64_t> shape, DType dtype) {
        const std::int64_t bytes =
            std::accumulate(shape.begin(), shape.end(), size_of(dtype), std::multiplies<>());
        const auto begin = static_cast<std::int64_t>(made.files[f].size());
        made.index.entries.push_back(
            {std::move(name), static_cast<int>(f), dtype, std::move(shape), begin, bytes});
        for (std::int64_t b = 0; b < bytes; ++b) made.files[f].push_back(static_cast<std::byte>(random()));
      };
      if (random() % 8 == 0)
        add(fmt::format("mtp.{}.{}", f, i), {static_cast<int>(random() % 40)}, DType::kInt8);
      add(tensors[i].name, tensors[i].target.shape, mixed_types ? pick_dtype(random) : DType::kBFloat16);
    }
    made.index.files.push_back({fmt::format("file {}", f), static_cast<std::int64_t>(made.files[f].size())});
  }
  return made;
}

/// A box, element by element.
void turn_over(const LoadMove& move, const std::byte* source, std::byte* target, DType arena) {
  for (std::int64_t line = 0; line < move.lines; ++line)
    for (std::int64_t i = 0; i < move.length(); ++i)
      convert_elements(source + (line * move.line_stride + i) * size_of(move.dtype), move.dtype,
                       target + (i * move.row_stride + line) * size_of(arena), arena, 1);
}

/// Does what the loader does, without ranks: every transfer is packed and unpacked as the plan says.
std::vector<Bytes> run_in_memory(const LoadPlan& plan, const MemoryCheckpoint& checkpoint) {
  const DType arena = plan.arena_dtype();
  std::vector<Bytes> arenas;
  for (int rank = 0; rank < plan.shards().world(); ++rank)
    arenas.emplace_back(static_cast<std::size_t>(plan.shards().arena_elements(rank) * size_of(arena)));
  std::vector<Transfer> transfers;
  for (const Chunk& chunk : plan.chunks()) {
    const std::byte* bytes = checkpoint.files[static_cast<std::size_t>(chunk.file)].data() + chunk.offset;
    plan.transfers_of(chunk, transfers);
    for (std::size_t rank = 0; rank < transfers.size(); ++rank)
      for (const auto* moves : {&transfers[rank].small, &transfers[rank].large})
        for (const LoadMove& move : *moves) {
          std::byte* const target = arenas[rank].data() + move.arena * size_of(arena);
          if (move.is_box())
            turn_over(move, bytes + move.source, target, arena);
          else
            convert_elements(bytes + move.source, move.dtype, target, arena, move.count);
        }
  }
  return arenas;
}

struct Case {
  test::TinyModel model;
  int ranks;
  std::int64_t chunk_bytes;
  ExpertLayout layout;
  DType arena;
  bool mixed_types;
  ReaderAssignment readers = ReaderAssignment::rank0(1);
};

ReaderAssignment random_readers(std::mt19937& random, int ranks) {
  std::vector<int> nodes;
  for (int rank = 0; rank < ranks; ++rank) nodes.push_back(static_cast<int>(random() % 3));
  switch (random() % 3) {
    case 0:
      return ReaderAssignment::rank0(ranks);
    case 1:
      return ReaderAssignment::node(nodes);
    default:
      return ReaderAssignment::all(ranks);
  }
}

Case random_case(std::mt19937& random) {
  const auto between = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  Case c;
  c.model = {.hidden = between(1, 40),
             .layers = between(1, 3),
             .experts = between(0, 5),
             .expert_width = between(1, 30)};
  c.model.head_width = 2 * between(1, 8);
  c.model.vocabulary = between(2, 300);
  c.model.tied = between(0, 1) == 1;
  if (between(0, 2) == 0) c.model.dense_layers = {0};
  c.model.joined_groups = between(0, 2);
  c.model.transposed = between(0, 1) == 1;
  c.ranks = between(1, 7);
  c.chunk_bytes = between(4096, between(0, 1) == 0 ? 6000 : 200'000);
  c.layout = between(0, 1) == 0 ? ExpertLayout::kPerExpert : ExpertLayout::kFused;
  c.arena = between(0, 1) == 0 ? DType::kBFloat16 : DType::kFloat32;
  c.mixed_types = between(0, 1) == 1;
  c.readers = random_readers(random, c.ranks);
  return c;
}

TEST(LoadPlan, puts_every_byte_where_direct_placement_does) {
  std::mt19937 random(20);
  for (int i = 0; i < 120; ++i) {
    SCOPED_TRACE(i);
    const Case c = random_case(random);
    const ParameterManifest manifest = test::manifest_of(c.model);
    const KeyMap keys(manifest);
    const UnitLayouts layouts = make_unit_layouts(manifest);
    const ShardPlan shards(layouts, {c.ranks, i % 3 == 0 ? c.ranks : 1});
    const MemoryCheckpoint checkpoint = make_checkpoint(keys, c.layout, random, c.mixed_types);
    const CheckpointMatch match = match_checkpoint(checkpoint.index, keys, c.arena);
    const LoadPlan plan(checkpoint.index, match, shards,
                        {.arena = c.arena, .chunk_bytes = c.chunk_bytes, .readers = c.readers});
    plan.check_coverage();
    const std::vector<std::int64_t> limits =
        staging_limits(shards, {.arena = c.arena, .chunk_bytes = c.chunk_bytes, .readers = c.readers}, 3);
    for (int rank = 0; rank < c.ranks; ++rank) {
      plan.check_coverage(rank);
      ASSERT_LE(plan.staging_bytes(rank, 3), limits[static_cast<std::size_t>(rank)]) << "rank " << rank;
    }
    const auto units =
        place_directly(checkpoint.index, manifest, layouts, c.arena,
                       [&](const CheckpointEntry& entry) { return checkpoint.bytes_of(entry); });
    const std::vector<Bytes> arenas = run_in_memory(plan, checkpoint);
    for (int rank = 0; rank < c.ranks; ++rank)
      ASSERT_EQ(arenas[static_cast<std::size_t>(rank)], arena_of(units, shards, rank, c.arena))
          << "rank " << rank;
  }
}

class LoadPlanTest : public testing::Test {
 protected:
  LoadPlan make(std::int64_t chunk_bytes = 64 * kKiB, DType arena = DType::kBFloat16) const {
    return make(ReaderAssignment::rank0(3), chunk_bytes, arena);
  }
  LoadPlan make(const ReaderAssignment& readers, std::int64_t chunk_bytes = 64 * kKiB,
                DType arena = DType::kBFloat16) const {
    return {checkpoint_.index,
            match_checkpoint(checkpoint_.index, keys_, arena),
            shards_,
            {.arena = arena, .chunk_bytes = chunk_bytes, .readers = readers}};
  }

  std::mt19937 random_{7};
  ParameterManifest manifest_ = test::manifest_of({.dense_layers = {1}});
  KeyMap keys_{manifest_};
  UnitLayouts layouts_ = make_unit_layouts(manifest_);
  ShardPlan shards_{layouts_, {3, 1}};
  MemoryCheckpoint checkpoint_ = make_checkpoint(keys_, ExpertLayout::kPerExpert, random_, true);
};

TEST_F(LoadPlanTest, reads_forward_in_full_chunks_and_skips_what_is_ignored) {
  const LoadPlan plan = make(5000);
  std::map<int, std::int64_t> ends;
  std::int64_t needed = 0;
  for (const CheckpointEntry& entry : checkpoint_.index.entries)
    if (!entry.name.starts_with("mtp.")) needed += entry.bytes;
  std::int64_t total = 0;
  for (const Chunk& chunk : plan.chunks()) {
    EXPECT_GT(chunk.bytes, 0);
    EXPECT_LE(chunk.bytes, 5000);
    EXPECT_GE(chunk.offset, ends[chunk.file]);
    ends[chunk.file] = chunk.offset + chunk.bytes;
    total += chunk.bytes;
  }
  EXPECT_EQ(total, needed);
  EXPECT_EQ(plan.read_bytes(), needed);
}

TEST_F(LoadPlanTest, states_payload_and_staging) {
  const LoadPlan plan = make(32 * kKiB, DType::kFloat32);
  std::int64_t payload = 0;
  for (int rank = 0; rank < 3; ++rank) payload += plan.payload_bytes(rank);
  EXPECT_EQ(payload, plan.read_bytes());
  EXPECT_EQ(plan.read_bytes(0), payload);
  EXPECT_EQ(plan.sent_bytes(0), payload - plan.payload_bytes(0));
  EXPECT_EQ(plan.chunk_room(0), 40 * kKiB);
  EXPECT_LE(plan.slot_bytes(0), 72 * kKiB);
  for (int rank = 1; rank < 3; ++rank) {
    EXPECT_EQ(plan.sent_bytes(rank), 0);
    EXPECT_GT(plan.slot_bytes(rank), 0);
    EXPECT_LE(plan.slot_bytes(rank), 32 * kKiB);
  }
}

TEST_F(LoadPlanTest, each_reader_reads_once_what_its_ranks_keep_and_nothing_else) {
  const std::array<int, 3> nodes{0, 1, 0};
  for (const ReaderAssignment& readers :
       {ReaderAssignment::rank0(3), ReaderAssignment::node(nodes), ReaderAssignment::all(3)}) {
    const LoadPlan plan = make(readers);
    std::map<std::pair<int, std::int64_t>, std::int64_t> extents;
    for (const int reader : readers.readers()) {
      std::int64_t kept = 0;
      for (int rank = 0; rank < 3; ++rank)
        if (readers.reader_of(rank) == reader) kept += plan.payload_bytes(rank);
      EXPECT_EQ(plan.read_bytes(reader), kept);
      EXPECT_EQ(plan.sent_bytes(reader), kept - plan.payload_bytes(reader));
      for (const Chunk& chunk : plan.chunks_of(reader)) {
        extents.emplace(std::pair(chunk.file, chunk.offset), chunk.bytes);
        plan.for_each_move_of(chunk,
                              [&](const LoadMove& p) { EXPECT_EQ(readers.reader_of(p.rank), reader); });
      }
    }
    ASSERT_EQ(extents.size(), plan.chunks().size());
    for (auto at = extents.begin(), next = std::next(at); next != extents.end(); at = next++)
      EXPECT_TRUE(at->first.first != next->first.first ||
                  at->first.second + at->second <= next->first.second);
  }
}

TEST_F(LoadPlanTest, chunks_end_on_blocks_where_they_are_cut_by_their_length) {
  const LoadPlan plan = make(16 * kKiB);
  int cut = 0;
  for (const Chunk& chunk : plan.chunks()) {
    if (chunk.bytes < 12 * kKiB) continue;
    ++cut;
    // But for an element that lies across the border.
    EXPECT_LT(LoadPlan::kBlockBytes - 1 - (chunk.offset + chunk.bytes - 1) % LoadPlan::kBlockBytes, 4);
  }
  EXPECT_GT(cut, 10);
}

TEST_F(LoadPlanTest, a_plan_that_discards_stages_everything) {
  const CheckpointMatch match = match_checkpoint(checkpoint_.index, keys_, DType::kBFloat16);
  const LoadPlan plan(checkpoint_.index, match, shards_,
                      {.readers = ReaderAssignment::rank0(3), .discard = true});
  for (int rank = 1; rank < 3; ++rank) EXPECT_GE(plan.slot_bytes(rank), make().slot_bytes(rank));
  LoadMove move;
  move.dtype = DType::kBFloat16;
  EXPECT_TRUE(plan.is_staged(move));
}

TEST_F(LoadPlanTest, digest_tells_plans_apart) {
  const Digest digest = make().digest();
  EXPECT_EQ(make().digest(), digest);
  EXPECT_NE(make(32 * kKiB).digest(), digest);
  EXPECT_NE(make(64 * kKiB, DType::kFloat32).digest(), digest);
  checkpoint_.index.files[0].bytes += 1;
  EXPECT_NE(make().digest(), digest);
  checkpoint_.index.files[0].bytes -= 1;
  const ShardPlan other(layouts_, {2, 1});
  const CheckpointMatch match = match_checkpoint(checkpoint_.index, keys_, DType::kBFloat16);
  EXPECT_NE(LoadPlan(checkpoint_.index, match, other, {.readers = ReaderAssignment::rank0(2)}).digest(),
            digest);
  EXPECT_NE(make(ReaderAssignment::all(3)).digest(), digest);
}

TEST_F(LoadPlanTest, coverage_check_finds_gaps_and_overlaps) {
  CheckpointMatch match = match_checkpoint(checkpoint_.index, keys_, DType::kBFloat16);
  const auto check = [&] {
    LoadPlan(checkpoint_.index, match, shards_, {.readers = ReaderAssignment::rank0(3)}).check_coverage();
  };
  check();
  const MatchedEntry last = match.entries.back();
  match.entries.pop_back();
  EXPECT_THAT(test::error_of(check), testing::StartsWith("70: "));
  match.entries.push_back(last);
  match.entries.push_back(last);
  match.entries.back().entry = match.entries.front().entry;
  match.entries.front() = last;
  EXPECT_THAT(test::error_of(check), testing::StartsWith("70: "));
}

TEST_F(LoadPlanTest, each_rank_finds_the_gaps_of_its_own_arena) {
  CheckpointMatch match = match_checkpoint(checkpoint_.index, keys_, DType::kBFloat16);
  match.entries.erase(std::ranges::min_element(match.entries, {}, &MatchedEntry::count));
  const LoadPlan plan(checkpoint_.index, match, shards_, {.readers = ReaderAssignment::rank0(3)});
  int found = 0;
  for (int rank = 0; rank < 3; ++rank)
    found += test::error_of([&] { plan.check_coverage(rank); }).starts_with("70: ");
  EXPECT_GE(found, 1);
  EXPECT_LT(found, 3) << "a norm does not lie on every rank";
}

TEST_F(LoadPlanTest, a_ring_has_no_more_slots_than_there_are_chunks) {
  const LoadPlan plan = make(ReaderAssignment::all(3), 8 * kMiB);
  const auto chunks = static_cast<int>(plan.chunks_of(1).size());
  EXPECT_EQ(plan.slots(1, chunks + 5), chunks);
  EXPECT_EQ(plan.slots(1, 1), 1);
  EXPECT_EQ(plan.staging_bytes(1, chunks + 5), chunks * round_up(plan.slot_bytes(1), LoadPlan::kBlockBytes));
}

TEST(LoadPlan, is_small_and_quick_for_eighteen_thousand_tensors) {
  const ParameterManifest manifest = test::manifest_of({.hidden = 2048,
                                                        .layers = 48,
                                                        .heads = 32,
                                                        .key_heads = 4,
                                                        .head_width = 128,
                                                        .experts = 128,
                                                        .expert_width = 768,
                                                        .vocabulary = 151936});
  const KeyMap keys(manifest);
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const ShardPlan shards(layouts, {3, 1});
  CheckpointIndex index;
  index.files.push_back({"model.safetensors", 0});
  std::int64_t at = 1000;
  for (const PublishedTensor& tensor : keys.published(ExpertLayout::kPerExpert)) {
    const auto& shape = tensor.target.shape;
    const std::int64_t bytes =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{2}, std::multiplies<>());
    index.entries.push_back({tensor.name, 0, DType::kBFloat16, shape, at, bytes});
    at += bytes;
  }
  EXPECT_EQ(index.entries.size(), 18'867u);
  const LoadPlan plan(index, match_checkpoint(index, keys, DType::kBFloat16), shards,
                      {.readers = ReaderAssignment::rank0(3)});
  EXPECT_EQ(plan.read_bytes(), 61'064'245'248);
  EXPECT_EQ(static_cast<std::int64_t>(plan.chunks().size()), (plan.read_bytes() + 8 * kMiB - 1) / (8 * kMiB));
  plan.check_coverage();
  EXPECT_LT(plan.slot_bytes(0), 9 * kMiB);
  EXPECT_LT(plan.slot_bytes(2), kMiB);
}

}  // namespace
}  // namespace sluice
