#include "load/chunk_reader.hpp"

#include "load/synthesize.hpp"
#include "load/tiny_model.hpp"

#include <gmock/gmock.h>

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
  LoadPlan make_plan() const {
    const CheckpointIndex index = read_checkpoint_index(dir());
    return {index, match_checkpoint(index, keys_, DType::kBFloat16), shards_, DType::kBFloat16, 64 * kKiB};
  }

  test::TemporaryDirectory directory_;
  ParameterManifest manifest_ = test::manifest_of({});
  KeyMap keys_{manifest_};
  UnitLayouts layouts_ = make_unit_layouts(manifest_);
  ShardPlan shards_{layouts_, {1, 1}};
};

TEST_F(ChunkReaderTest, ReadsTheSameBytesUnderEveryCachePolicy) {
  const LoadPlan plan = make_plan();
  const InputFile file = InputFile::open(dir() / "model.safetensors");
  for (const CachePolicy policy : {CachePolicy::kAuto, CachePolicy::kKeep, CachePolicy::kDrop}) {
    ChunkReader reader(plan, dir(), policy);
    for (const Read& read : plan.reads()) {
      std::vector<std::byte> found(64 * kKiB);
      reader.read(read, found, [] {});
      std::vector<std::byte> expected(static_cast<std::size_t>(read.bytes));
      file.read_at(read.offset, expected);
      found.resize(expected.size());
      ASSERT_EQ(found, expected);
    }
  }
}

TEST_F(ChunkReaderTest, RefusesAFileThatChangedSinceItsHeaderWasRead) {
  const LoadPlan plan = make_plan();
  fs::resize_file(dir() / "model.safetensors", 5000);
  ChunkReader reader(plan, dir(), CachePolicy::kAuto);
  std::vector<std::byte> out(64 * kKiB);
  EXPECT_THAT(test::error_of([&] { reader.read(plan.reads()[0], out, [] {}); }),
              AllOf(StartsWith("65: "), HasSubstr("has 5000 bytes")));
}

TEST_F(ChunkReaderTest, RefusesAFileThatShrinksWhileItIsRead) {
  const LoadPlan plan = make_plan();
  ChunkReader reader(plan, dir(), CachePolicy::kAuto);
  std::vector<std::byte> out(64 * kKiB);
  reader.read(plan.reads()[0], out, [] {});
  fs::resize_file(dir() / "model.safetensors", 5000);
  EXPECT_THAT(test::error_of([&] { reader.read(plan.reads()[1], out, [] {}); }), StartsWith("65: "));
}

}  // namespace
}  // namespace sluice
