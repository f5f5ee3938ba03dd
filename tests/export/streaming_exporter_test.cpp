#include "export/streaming_exporter.hpp"

#include "comm/run_together.hpp"
#include "export/synthesize.hpp"
#include "shard/initial_values.hpp"
#include "support/expect_error.hpp"
#include "support/mpi_test.hpp"
#include "support/shared_directory.hpp"
#include "weights/checkpoint_match.hpp"
#include "weights/entry_reader.hpp"
#include "weights/tiny_model.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <array>
#include <cmath>
#include <csignal>
#include <optional>

namespace sluice {
namespace {

using test::test_world;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// About 8 MB, with runs that are written from the arena itself.
const test::TinyModel kModel{
    .hidden = 256, .layers = 2, .experts = 6, .expert_width = 192, .vocabulary = 4096, .joined_groups = 2};

class StreamingExporterTest : public testing::Test {
 protected:
  StreamingExporterTest() { initialize_shards(values_, manifest_, 0.02f, 3); }

  [[nodiscard]] ExportPlan plan(ExpertLayout layout, DType dtype, std::int64_t max_shard_bytes) const {
    return {content_of(keys_, layout, dtype), shards_, max_shard_bytes, {0}};
  }
  ExportReport run(const ExportPlan& plan, const ExportOptions& options = {}) const {
    return export_checkpoint(test_world(), plan, ArenaValues(values_), directory_ / "out", options);
  }
  /// This rank's arena as the files in out/ have it, read by the rank itself.
  [[nodiscard]] std::vector<std::byte> read_back(DType dtype) const {
    const CheckpointIndex index = read_checkpoint_index(directory_ / "out");
    static_cast<void>(match_checkpoint(index, keys_, dtype));
    const auto units =
        test::place_directly(index, manifest_, layouts_, dtype, [&](const CheckpointEntry& entry) {
          std::vector<std::byte> bytes(static_cast<std::size_t>(entry.bytes));
          InputFile::open(directory_ / "out" / index.files[static_cast<std::size_t>(entry.file)].name)
              .read_at(entry.begin, bytes);
          return bytes;
        });
    return test::arena_of(units, shards_, test_world().rank(), dtype);
  }
  [[nodiscard]] std::vector<std::byte> bytes_of(const ShardArena& arena) const {
    return {arena.data(), arena.data() + arena.bytes()};
  }

  test::SharedDirectory directory_;
  ParameterManifest manifest_ = test::manifest_of(kModel);
  KeyMap keys_{manifest_};
  UnitLayouts layouts_ = make_unit_layouts(manifest_);
  ShardPlan shards_{layouts_, {test_world().size(), 1}};
  ShardArena values_{shards_, test_world().rank(), DType::kFloat32, MemoryKind::kPrivate, "weights"};
};

struct Case {
  ExpertLayout layout;
  std::int64_t max_shard_bytes;
  std::int64_t staging_bytes;
};

class Layouts : public StreamingExporterTest, public testing::WithParamInterface<Case> {};

TEST_P(Layouts, what_is_read_back_is_what_was_written) {
  const Case& c = GetParam();
  const ExportReport report =
      run(plan(c.layout, DType::kFloat32, c.max_shard_bytes), {.staging_bytes = c.staging_bytes});
  EXPECT_EQ(read_back(DType::kFloat32), bytes_of(values_));
  EXPECT_EQ(directory_.count(), 1);
  std::int64_t written = 0;
  for (const RankExport& rank : report.ranks) written += rank.written_bytes;
  EXPECT_EQ(written, report.file_bytes);
  EXPECT_EQ(report.ranks.front().staging_bytes, c.staging_bytes);
}

INSTANTIATE_TEST_SUITE_P(StreamingExporter, Layouts,
                         testing::Values(Case{ExpertLayout::kPerExpert, 5'000'000, 8 * kMiB},
                                         Case{ExpertLayout::kPerExpert, kGiB, 4096},
                                         Case{ExpertLayout::kFused, 2'000'000, 64 * kKiB},
                                         Case{ExpertLayout::kFused, kGiB, kMiB}));

TEST_F(StreamingExporterTest, transposes_experts_on_their_way_out) {
  test::TinyModel model = kModel;
  model.transposed = true;
  manifest_ = test::manifest_of(model);
  for (const std::int64_t staging : {std::int64_t{4096}, 60 * kKiB, 8 * kMiB}) {
    static_cast<void>(run(plan(ExpertLayout::kPerExpert, DType::kFloat32, kGiB), {.staging_bytes = staging}));
    EXPECT_EQ(read_back(DType::kFloat32), bytes_of(values_)) << staging;
    test_world().barrier();  // all have read
    run_together(test_world(), [&] {
      if (test_world().rank() == 0) fs::remove_all(directory_ / "out");
    });
  }
}

TEST_F(StreamingExporterTest, rounds_to_the_type_of_the_files) {
  static_cast<void>(run(plan(ExpertLayout::kPerExpert, DType::kBFloat16, kGiB)));
  ShardArena rounded(shards_, test_world().rank(), DType::kBFloat16, MemoryKind::kPrivate, "weights");
  convert_elements(values_.data(), DType::kFloat32, rounded.data(), DType::kBFloat16,
                   shards_.arena_elements(test_world().rank()));
  EXPECT_EQ(read_back(DType::kBFloat16), bytes_of(rounded));
}

TEST_F(StreamingExporterTest, refuses_to_make_float8_of_what_is_no_number) {
  ExportContent content = content_of(keys_, ExpertLayout::kFused, DType::kBFloat16);
  ExportTensor& codes = content.tensors.front();
  const std::vector<std::int64_t> shape = codes.target.shape;
  content.quantised.push_back({codes.name,
                               codes.target,
                               {.scale_count = 1,
                                .rows = shape[0],
                                .columns = shape[1],
                                .block_rows = shape[0],
                                .block_columns = shape[1]}});
  codes.dtype = DType::kFloat8E4M3;
  codes.part = StoredPart::kCodes;
  codes.weight = 0;
  content.tensors.push_back({codes.name + "_scale", DType::kFloat32, {{1}, {}}, -1, StoredPart::kScales, 0});
  const ExportPlan written(content, shards_, kMiB, {0});
  written.check_coverage();
  static_cast<void>(run(written));
  auto* const own = reinterpret_cast<float*>(values_.data());
  shards_.owned_runs(content.quantised.front().target.tensor(), test_world().rank(),
                     [&](const ShardPlan::OwnedRun& run) {
                       if (run.tensor_begin == 0) own[run.arena_begin] = INFINITY;
                     });
  test::expect_error(ExitCode::kBadData, {"embed_tokens", "infinity"},
                     [&] { static_cast<void>(run(written)); });
}

TEST_F(StreamingExporterTest, copies_what_training_ignores) {
  const fs::path source = directory_ / "source";
  run_together(test_world(), [&] {
    if (test_world().rank() != 0) return;
    synthesize_checkpoint(keys_, source, {});
    fs::rename(source / "model.safetensors", source / "language.safetensors");
    test::write_safetensors(source / "vision.safetensors", {{"model.visual.weight", {1500, 1001}}});
  });
  CheckpointIndex index;
  {
    const InputFile file = InputFile::open(source / "vision.safetensors");
    const SafetensorsEntry entry = read_safetensors_header(file).entries.front();
    index.files = {{"vision.safetensors", file.size_bytes()}};
    index.entries = {{entry.name, 0, entry.dtype, entry.shape, entry.begin, entry.bytes}};
  }
  ExportContent content = content_of(keys_, ExpertLayout::kFused, DType::kBFloat16);
  const ExportContent copies = content_like(index, keys_, std::nullopt);
  content.source = copies.source;
  content.tensors.push_back(copies.tensors.front());
  std::vector<int> everybody;
  for (int rank = 0; rank < test_world().size(); ++rank) everybody.push_back(rank);
  const ExportReport report =
      run({content, shards_, kGiB, everybody}, {.source = source, .staging_bytes = 100'000});
  const CheckpointIndex written = read_checkpoint_index(directory_ / "out");
  EXPECT_EQ(written.entries.size(), content.tensors.size());
  EXPECT_EQ(written.entries.back().shape, index.entries.front().shape);
  std::int64_t copied = 0;
  for (const RankExport& rank : report.ranks) copied += rank.copied_bytes;
  EXPECT_EQ(copied, index.entries.front().bytes);
}

TEST_F(StreamingExporterTest, copies_quantised_weights_that_training_ignores_as_numbers) {
  const fs::path source = directory_ / "source";
  run_together(test_world(), [&] {
    if (test_world().rank() != 0) return;
    fs::create_directory(source);
    std::vector<SafetensorsEntry> tensors{{"mtp.fc.weight", DType::kFloat8E4M3, {3, 5}, 0, 0},
                                          {"mtp.fc.weight_scale", DType::kFloat8E8M0, {3, 1}, 0, 0}};
    std::string bytes = make_safetensors_header(tensors, {});
    for (int i = 0; i < 15; ++i) bytes.push_back(static_cast<char>(0x38 + i));  // 1, 1.125, …
    test::write_file(source / "model.safetensors", bytes + "\x7f\x80\x7e");     // 1, 2 and 1/2
  });
  const ExportContent copies = content_like(read_checkpoint_index(source), keys_, std::nullopt);
  ExportContent content = content_of(keys_, ExpertLayout::kFused, DType::kBFloat16);
  content.source = copies.source;
  content.tensors.push_back(copies.tensors.at(0));
  static_cast<void>(run({content, shards_, kGiB, {0}}, {.source = source}));
  const CheckpointIndex written = read_checkpoint_index(directory_ / "out");
  const CheckpointEntry& entry = written.entries.back();
  EXPECT_EQ(entry.name, "mtp.fc.weight");
  ASSERT_EQ(entry.shape, (std::vector<std::int64_t>{3, 5}));
  std::vector<std::uint16_t> found(15), expected;
  EntryReader(written, directory_ / "out").read(entry, {0, 15}, std::as_writable_bytes(std::span(found)));
  for (int i = 0; i < 15; ++i) {
    const float code = i < 8 ? 1 + 0.125F * static_cast<float>(i) : 2 + 0.25F * static_cast<float>(i - 8);
    expected.push_back(bfloat16_bits(code * (i < 5 ? 1.0F : i < 10 ? 2.0F : 0.5F)));
  }
  EXPECT_EQ(found, expected);
}

TEST_F(StreamingExporterTest, progress_reaches_the_end_once_and_on_rank_0) {
  std::vector<std::int64_t> done;
  std::int64_t total = 0;
  static_cast<void>(run(plan(ExpertLayout::kPerExpert, DType::kBFloat16, 2'000'000),
                        {.staging_bytes = 64 * kKiB, .progress = [&](std::int64_t d, std::int64_t t) {
                           done.push_back(d);
                           total = t;
                         }}));
  EXPECT_EQ(done.empty(), test_world().rank() != 0);
  EXPECT_TRUE(std::ranges::is_sorted(done));
  EXPECT_LE(std::ranges::count(done, total), 1);
}

TEST_F(StreamingExporterTest, a_failure_of_rank_0_leaves_nothing_behind) {
  const ExportPlan plan = this->plan(ExpertLayout::kFused, DType::kBFloat16, kGiB);
  const std::string error = test::error_of([&] {
    static_cast<void>(run(plan, {.companions = {{"/nonexistent/config.json", "config.json"}}}));
  });
  EXPECT_THAT(error, HasSubstr("/nonexistent/config.json"));
  EXPECT_EQ(directory_.count(), 0);
}

/// While it lives, this process writes no further than `bytes` into any file.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(StreamingExporterTest, a_full_disk_on_one_rank_fails_on_all_and_leaves_nothing_behind) {
  const int last = test_world().size() - 1;
  const ExportPlan plan = this->plan(ExpertLayout::kFused, DType::kBFloat16, kGiB);
  std::string error;
  {
    std::optional<FileSizeLimit> limit;
    if (test_world().rank() == last) limit.emplace(1'000'000);
    error = test::error_of([&] { static_cast<void>(run(plan)); });
    test_world().barrier();
  }
  EXPECT_THAT(error, HasSubstr("74: "));
  EXPECT_THAT(error, HasSubstr("model.safetensors"));
  if (test_world().rank() != last) {
    EXPECT_THAT(error, HasSubstr(fmt::format("on rank {}: ", last)));
  }
  EXPECT_EQ(directory_.count(), 0);
}

TEST_F(StreamingExporterTest, never_writes_onto_a_directory_that_holds_something) {
  const ExportPlan plan = this->plan(ExpertLayout::kFused, DType::kBFloat16, kGiB);
  const bool is_root = test_world().rank() == 0;
  EXPECT_EQ(run(plan).directory, is_root ? directory_ / "out" : "");
  const auto written = std::filesystem::last_write_time(directory_ / "out/model.safetensors");
  EXPECT_EQ(run(plan).directory, is_root ? directory_ / "out-1" : "");
  EXPECT_EQ(std::filesystem::last_write_time(directory_ / "out/model.safetensors"), written);
  for (const char* name : {"out", "out-1"})
    EXPECT_EQ(read_checkpoint_index(directory_ / name).files.size(), 1U);
}

TEST(RunTogether, every_rank_throws_the_error_of_the_lowest_that_fails) {
  const int rank = test_world().rank();
  const std::string error = test::error_of([&] {
    run_together(test_world(), [&] {
      if (rank >= 1) fail(ExitCode::kIo, "disk of {} is full", rank);
    });
  });
  if (test_world().size() == 1)
    EXPECT_EQ(error, "");
  else
    EXPECT_EQ(error, rank == 1 ? "74: disk of 1 is full" : "74: on rank 1: disk of 1 is full");
}

}  // namespace
}  // namespace sluice
