#include "load/chunk_reader.hpp"

#include "export/synthesize.hpp"
#include "weights/tiny_model.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class ChunkReaderTest : public testing::Test {
 protected:
  ChunkReaderTest() { synthesize_checkpoint(keys_, directory_.path() / "model", {}); }
  fs::path dir() const { return directory_.path() / "model"; }
  fs::path path() const { return dir() / "model.safetensors"; }
  LoadPlan make_plan(std::int64_t chunk_bytes = 64 * kKiB) const {
    const CheckpointIndex index = read_checkpoint_index(dir());
    return {index,
            match_checkpoint(index, keys_, DType::kBFloat16),
            shards_,
            {.chunk_bytes = chunk_bytes, .readers = ReaderAssignment::rank0(1)}};
  }

  test::TemporaryDirectory directory_;
  ParameterManifest manifest_ = test::manifest_of({});
  KeyMap keys_{manifest_};
  UnitLayouts layouts_ = make_unit_layouts(manifest_);
  ShardPlan shards_{layouts_, {1, 1}};

  /// What reading a chunk leaves in the slot, and where own moves go, as the chunk's bytes.
  std::vector<std::byte> bytes_of(ChunkReader& reader, const Chunk& chunk) {
    const LoadedChunk loaded = reader.read(chunk, slot_.span());
    std::vector<std::byte> bytes(loaded.data, loaded.data + chunk.bytes);
    if (loaded.own_placed)
      for (const auto& [source, placed] : placed_) std::ranges::copy(placed, bytes.begin() + source);
    return bytes;
  }
  /// Keeps own moves under their place in the chunk.
  ChunkReader::OwnPlace place_apart() {
    return [this](const LoadMove& move) {
      std::vector<std::byte>& to = placed_[move.source];
      to.resize(static_cast<std::size_t>(move.bytes()));
      return to.data();
    };
  }
  void expect_same_bytes(CachePolicy policy) {
    const LoadPlan plan = make_plan();
    const InputFile file = InputFile::open(path());
    ChunkReader reader(plan, dir(), policy, place_apart());
    for (const Chunk& chunk : plan.chunks()) {
      std::vector<std::byte> expected(static_cast<std::size_t>(chunk.bytes));
      file.read_at(chunk.offset, expected);
      placed_.clear();
      ASSERT_EQ(bytes_of(reader, chunk), expected);
    }
  }
  /// Empties the page cache of the file, which must be on disk for that.
  void forget_file() const {
    const FileDescriptor descriptor(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::fsync(descriptor.get()), 0);
    InputFile::open(path()).drop_cache(0, static_cast<std::int64_t>(fs::file_size(path())));
  }
  [[nodiscard]] std::int64_t cached_bytes() const { return InputFile::open(path()).cached_bytes().value(); }

  struct Slot {
    MemoryBlock block = allocate(MemoryKind::kPrivate, kMiB, "a test");
    [[nodiscard]] std::span<std::byte> span() const {
      return {block.data(), static_cast<std::size_t>(block.bytes())};
    }
  } slot_;
  std::map<std::int64_t, std::vector<std::byte>> placed_;
};

TEST_F(ChunkReaderTest, reads_the_same_bytes_under_every_cache_policy_cached_or_not) {
  for (const CachePolicy policy : {CachePolicy::kAuto, CachePolicy::kKeep, CachePolicy::kDrop}) {
    SCOPED_TRACE(static_cast<int>(policy));
    expect_same_bytes(policy);
    forget_file();
    expect_same_bytes(policy);
  }
}

TEST_F(ChunkReaderTest, reads_the_blocks_that_a_chunk_touches_up_to_the_end_of_the_file_or_its_bytes_alone) {
  constexpr std::int64_t kBlock = InputFile::kBlockBytes;
  forget_file();
  const bool is_direct = InputFile::open_direct(path()).has_value();
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path()));
  const LoadPlan plan = make_plan(bytes);
  ASSERT_EQ(plan.chunks().size(), 1U);
  const Chunk& chunk = plan.chunks().front();  // all behind the header
  ASSERT_NE(chunk.offset % kBlock, 0);
  const MemoryBlock room = allocate(MemoryKind::kPrivate, plan.chunk_room(0), "a test");
  ChunkReader reader(plan, dir(), CachePolicy::kDrop, nullptr);
  const LoadedChunk loaded = reader.read(chunk, {room.data(), static_cast<std::size_t>(room.bytes())});
  EXPECT_EQ(loaded.overhead_bytes, is_direct ? bytes - chunk.offset / kBlock * kBlock - chunk.bytes : 0);
}

TEST_F(ChunkReaderTest, drop_leaves_nothing_in_the_page_cache_even_of_what_was_there) {
  forget_file();
  const std::int64_t least = cached_bytes();  // all of it, on a file system in memory
  expect_same_bytes(CachePolicy::kKeep);
  EXPECT_GT(cached_bytes(), 0);
  expect_same_bytes(CachePolicy::kDrop);
  EXPECT_LE(cached_bytes(), least + 4 * InputFile::kBlockBytes);
}

TEST_F(ChunkReaderTest, auto_leaves_the_page_cache_as_it_found_it) {
  expect_same_bytes(CachePolicy::kKeep);
  const std::int64_t all = cached_bytes();
  expect_same_bytes(CachePolicy::kAuto);
  EXPECT_EQ(cached_bytes(), all);
}

TEST_F(ChunkReaderTest, large_own_moves_never_touch_the_slot) {
  const LoadPlan plan = make_plan();
  ChunkReader reader(plan, dir(), CachePolicy::kKeep, place_apart());
  for (const Chunk& chunk : plan.chunks()) static_cast<void>(reader.read(chunk, slot_.span()));
  EXPECT_FALSE(placed_.empty());
  for (const auto& [source, bytes] : placed_) EXPECT_GE(std::ssize(bytes), LoadPlan::kLargeMoveBytes);
}

TEST_F(ChunkReaderTest, refuses_a_file_that_changed_since_its_header_was_read) {
  const LoadPlan plan = make_plan();
  fs::resize_file(path(), 5000);
  ChunkReader reader(plan, dir(), CachePolicy::kAuto, nullptr);
  EXPECT_THAT(test::error_of([&] { static_cast<void>(reader.read(plan.chunks()[0], slot_.span())); }),
              AllOf(StartsWith("65: "), HasSubstr("has 5000 bytes")));
}

TEST_F(ChunkReaderTest, refuses_a_file_that_shrinks_while_it_is_read) {
  const LoadPlan plan = make_plan();
  for (const CachePolicy policy : {CachePolicy::kKeep, CachePolicy::kDrop}) {
    SCOPED_TRACE(static_cast<int>(policy));
    if (policy == CachePolicy::kDrop) forget_file();
    ChunkReader reader(plan, dir(), policy, nullptr);
    static_cast<void>(reader.read(plan.chunks()[0], slot_.span()));
    fs::resize_file(path(), 5000);
    EXPECT_THAT(test::error_of([&] { static_cast<void>(reader.read(plan.chunks()[1], slot_.span())); }),
                StartsWith("65: "));
    // The length stays, for the next policy.
    fs::resize_file(path(), static_cast<std::uintmax_t>(plan.files()[0].bytes));
  }
}

}  // namespace
}  // namespace sluice
