#include "metrics/metrics_writer.hpp"

#include "base/bytes.hpp"
#include "base/memory/memory.hpp"
#include "metrics/metrics_rows.hpp"
#include "support/expect_error.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace sluice {
namespace {

using test::expect_error;
using test::header_for;
using test::row_of;
using test::TemporaryDirectory;

/// Standard output of a shell command, which must succeed.
std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> part;
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), got);
  EXPECT_EQ(::pclose(pipe), 0) << command << '\n' << text;
  return text;
}

/// The file has `rows` rows of loss, and maybe one that was not finished.
void expect_losses(const std::filesystem::path& path, std::int64_t rows) {
  const std::vector<double> loss = hdf5::File::open(path).dataset("/train/loss").read<double>();
  ASSERT_GE(std::ssize(loss), rows);
  for (std::int64_t i = 0; i < rows; ++i)
    ASSERT_EQ(loss[static_cast<std::size_t>(i)], 1.0 / static_cast<double>(i + 1));
}

TEST(MetricsWriter, writes_what_the_contract_names) {
  const TemporaryDirectory directory;
  MetricsWriter writer(directory / "metrics.h5", header_for(100));
  for (std::int64_t step = 1; step <= 3; ++step) writer.append(row_of(step));
  writer.close();

  const hdf5::File file = hdf5::File::open(directory / "metrics.h5");
  EXPECT_EQ(file.dataset("/train/step").read<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(file.dataset("/train/loss").read<double>(), (std::vector<double>{1.0, 1.0 / 2, 1.0 / 3}));
  EXPECT_EQ(file.dataset("/train/phase_seconds/backward").read<double>(),
            (std::vector<double>{0.2, 0.2, 0.2}));
  EXPECT_EQ(file.dataset("/moe/expert_tokens").shape(), (std::vector<std::int64_t>{3, 2, 512}));
  // 511 tokens, where the mean of experts with 0 to 511 tokens is 255.5.
  EXPECT_EQ(file.dataset("/moe/busiest_load").read<double>(), (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(file.dataset("/moe/unused_experts").read<std::int64_t>(), (std::vector<std::int64_t>{1, 1, 1}));
  EXPECT_EQ(file.dataset("/moe/aux_loss").read<double>(), (std::vector<double>{1.5, 1.5, 1.5}));
  EXPECT_EQ(file.dataset("/moe/z_loss").read<double>(), (std::vector<double>{2.5, 2.5, 2.5}));
  EXPECT_EQ(file.dataset("/memory/peak_bytes").read<std::int64_t>(),
            (std::vector<std::int64_t>{1, 10, 2, 20, 3, 30}));
  EXPECT_EQ(file.children("/train"),
            (std::vector<std::string>{"communicated_bytes", "filled", "grad_norm", "learning_rate",
                                      "left_out", "loss", "mfu", "model_flops_per_second", "moved_bytes",
                                      "phase_seconds", "product_rate_share", "step", "step_seconds", "tokens",
                                      "tokens_per_second"}));
}

TEST(MetricsWriter, keeps_former_names_as_second_links) {
  const TemporaryDirectory directory;
  MetricsWriter writer(directory / "metrics.h5", header_for(100));
  TrainRow row = row_of(1);
  row.communicated_bytes = 77;
  row.mfu = 0.25;
  writer.append(row);
  writer.close();

  const hdf5::File file = hdf5::File::open(directory / "metrics.h5");
  EXPECT_EQ(file.dataset("/train/moved_bytes").read<std::int64_t>(), std::vector<std::int64_t>{77});
  EXPECT_EQ(file.dataset("/train/product_rate_share").read<double>(), std::vector<double>{0.25});
  EXPECT_EQ(file.text_attribute("/train/moved_bytes", "units"), "B");
}

TEST(MetricsWriter, adds_documents_several_at_a_time_and_keeps_the_totals) {
  const TemporaryDirectory directory;
  MetricsHeader header = header_for(0);
  header.documents = 100'001;
  MetricsWriter writer(directory / "metrics.h5", header);
  {
    const hdf5::File file = hdf5::File::open(directory / "metrics.h5");
    EXPECT_EQ(file.dataset("/evaluate/total_tokens").read<std::int64_t>(), std::vector<std::int64_t>{-1});
    EXPECT_TRUE(std::isnan(file.dataset("/evaluate/total_loss").read<double>().front()));
  }
  std::vector<EvaluationRow> rows;
  for (std::int64_t i = 0; i < 50'000; ++i) rows.push_back({i, 0.5 * static_cast<double>(i), 2});
  writer.append(std::vector<EvaluationRow>{{7, 3, 4}});
  writer.append(std::vector<EvaluationRow>{});
  writer.write_total({8, 3, 4});
  writer.append(rows);
  writer.append(rows);
  writer.write_total({10, 5, 6});

  const hdf5::File file = hdf5::File::open(directory / "metrics.h5");
  const std::vector<std::int64_t> tokens = file.dataset("/evaluate/tokens").read<std::int64_t>();
  const std::vector<double> loss = file.dataset("/evaluate/loss").read<double>();
  ASSERT_EQ(tokens.size(), 100'001U);
  ASSERT_EQ(loss.size(), tokens.size());
  EXPECT_EQ(tokens[0], 7);
  EXPECT_EQ(tokens[50'000], 49'999);
  EXPECT_EQ(loss[50'001], 0.0);
  EXPECT_EQ(loss[100'000], 0.5 * 49'999);
  EXPECT_EQ(file.dataset("/evaluate/total_tokens").read<std::int64_t>(), std::vector<std::int64_t>{10});
  EXPECT_EQ(file.dataset("/evaluate/total_perplexity").read<double>(), std::vector<double>{6});
}

TEST(MetricsWriter, has_no_evaluation_where_nothing_is_evaluated) {
  const TemporaryDirectory directory;
  MetricsWriter(directory / "metrics.h5", header_for(10)).close();
  EXPECT_FALSE(hdf5::File::open(directory / "metrics.h5").exists("/evaluate"));
}

TEST(MetricsWriter, explains_the_file_and_every_dataset) {
  const TemporaryDirectory directory;
  MetricsWriter(directory / "metrics.h5", header_for(10)).close();
  const hdf5::File file = hdf5::File::open(directory / "metrics.h5");
  EXPECT_EQ(file.attribute<std::int64_t>("/", "format_version"), std::vector<std::int64_t>{1});
  EXPECT_EQ(file.attribute<std::int64_t>("/", "world_size"), std::vector<std::int64_t>{2});
  EXPECT_EQ(file.text_attribute("/", "program"), "sluice");
  EXPECT_EQ(file.text_attribute("/", "job_toml"), header_for(10).job_toml);
  for (const char* name : {"git_revision", "structure_hash", "version", "created", "host"})
    EXPECT_FALSE(file.text_attribute("/", name).empty()) << name;
  std::vector<std::string> paths;
  for (const StepColumn& column : step_columns(header_for(10))) paths.push_back(column.column.path);
  for (const LoadColumn& column : load_columns()) paths.push_back(column.column.path);
  for (const std::string& path : paths) {
    EXPECT_FALSE(file.text_attribute(path, "units").empty()) << path;
    EXPECT_FALSE(file.text_attribute(path, "description").empty()) << path;
  }
}

TEST(MetricsWriter, has_no_moe_group_for_a_dense_model) {
  const TemporaryDirectory directory;
  MetricsHeader header = header_for(10);
  header.moe_layers = 0;
  MetricsWriter(directory / "metrics.h5", header).close();
  EXPECT_FALSE(hdf5::File::open(directory / "metrics.h5").exists("/moe"));
}

TEST(MetricsWriter, says_not_known_until_the_load_is_reported) {
  const TemporaryDirectory directory;
  MetricsWriter writer(directory / "metrics.h5", header_for(10));
  const hdf5::File before = hdf5::File::open(directory / "metrics.h5");
  EXPECT_EQ(before.dataset("/load/shard_bytes").read<std::int64_t>(), (std::vector<std::int64_t>{-1, -1}));
  EXPECT_TRUE(std::isnan(before.dataset("/load/seconds").read<double>()[0]));
  writer.write_load({.bytes_received = {1, 2},
                     .shard_bytes = {3, 4},
                     .peak_staging_bytes = {5, 6},
                     .peak_growth_bytes = {7, 8},
                     .seconds = {0.5, 1.5}});
  writer.append(row_of(1));
  EXPECT_EQ(
      output_of(SLUICE_H5DUMP " -y -d /load/seconds " + (directory / "metrics.h5").string()).find("nan"),
      std::string::npos);
  writer.close();
  const hdf5::File file = hdf5::File::open(directory / "metrics.h5");
  EXPECT_EQ(file.dataset("/load/peak_growth_bytes").read<std::int64_t>(), (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(file.dataset("/load/seconds").read<double>(), (std::vector<double>{0.5, 1.5}));
}

TEST(MetricsWriter, is_read_by_h5py_and_h5dump_while_it_writes) {
  const TemporaryDirectory directory;
  const std::string path = (directory / "metrics.h5").string();
  MetricsWriter writer(path, header_for(100));
  for (std::int64_t step = 1; step <= 40; ++step) {
    writer.append(row_of(step));
    if (step % 20 != 0) continue;
    EXPECT_EQ(
        output_of("env -i " + (source_folder() / "tests/metrics/read_metrics.py").string() + " " + path),
        std::to_string(step) + "\n");
  }
  EXPECT_NE(output_of("env -i " SLUICE_H5DUMP " " + path).find("( 40 ) / ( H5S_UNLIMITED )"),
            std::string::npos);
}

TEST(MetricsWriter, fills_every_block_and_refuses_more) {
  const TemporaryDirectory directory;
  for (const std::int64_t most : {1, 63, 64, 65, 500, 1025}) {
    const std::filesystem::path path = directory / (std::to_string(most) + ".h5");
    MetricsWriter writer(path, header_for(most));
    for (std::int64_t step = 1; step <= most; ++step) writer.append(row_of(step));
    expect_error(ExitCode::kInternal, {fmt::format("{} rows", most)},
                 [&] { writer.append(row_of(most + 1)); });
    EXPECT_EQ(writer.rows(), most);
    writer.close();
    expect_losses(path, most);
  }
}

/// Bytes that the file takes on its disk, without holes.
std::int64_t bytes_on_disk(const std::filesystem::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_blocks * 512;
}

TEST(MetricsWriter, takes_disk_and_memory_for_the_rows_written_and_not_for_those_to_come) {
  const TemporaryDirectory directory;
  const std::int64_t before = peak_resident_bytes();
  for (const std::int64_t most : {1'000'000, 5'600'000, 1'000'000'000}) {
    const std::filesystem::path path = directory / (std::to_string(most) + ".h5");
    MetricsHeader header = header_for(most);
    header.moe_layers = 48;
    header.experts = 128;
    MetricsWriter writer(path, header);
    TrainRow row = row_of(1);
    for (row.step = 1; row.step <= 3; ++row.step) {
      row.expert_tokens.assign(48 * 128, row.step);
      writer.append(row);
    }
    writer.close();
    EXPECT_LT(bytes_on_disk(path), 32 * kMiB);
    const hdf5::File file = hdf5::File::open(path);
    EXPECT_EQ(file.dataset("/train/step").read<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 3}));
    std::vector<std::int64_t> last(48 * 128);
    file.dataset("/moe/expert_tokens").read({{2, 0, 0}, {1, 48, 128}}, std::span(last));
    EXPECT_EQ(last, std::vector<std::int64_t>(48 * 128, 3));
  }
  EXPECT_LT(peak_resident_bytes() - before, 32 * kMiB);
}

TEST(MetricsWriter, leaves_an_existing_file_alone) {
  const TemporaryDirectory directory;
  const std::filesystem::path old = directory.write("metrics.h5", "precious");
  expect_error(ExitCode::kIo, {"metrics.h5", "exists already"}, [&] { MetricsWriter(old, header_for(1)); });
  EXPECT_EQ(std::filesystem::file_size(old), 8u);
}

TEST(MetricsWriter, names_a_missing_directory) {
  const TemporaryDirectory directory;
  expect_error(ExitCode::kIo, {"there is no directory", "missing"},
               [&] { MetricsWriter(directory / "missing/metrics.h5", header_for(1)); });
}

TEST(MetricsWriter, replaces_what_a_killed_creation_left) {
  const TemporaryDirectory directory;
  static_cast<void>(directory.write("metrics.h5.unfinished", "half"));
  MetricsWriter(directory / "metrics.h5", header_for(1)).close();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory / ""), {}), 1);
}

TEST(MetricsWriter, reports_a_row_of_the_wrong_shape) {
  const TemporaryDirectory directory;
  MetricsWriter writer(directory / "metrics.h5", header_for(10));
  TrainRow row = row_of(1);
  row.expert_tokens.pop_back();
  expect_error(ExitCode::kInternal, {"1023 values", "[1, 2, 512]"}, [&] { writer.append(row); });
}

TEST(MetricsWriter, reports_a_full_disk_and_keeps_the_rows_before) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "metrics.h5";
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  {
    MetricsWriter writer(path, header_for(1024));
    writer.append(row_of(1));
    const rlimit limit{std::filesystem::file_size(path) + 100'000,
                       old.rlim_max};  // less than a block of 16 rows of 8 KiB
    ::setrlimit(RLIMIT_FSIZE, &limit);
    for (std::int64_t step = 2; step <= 16; ++step) writer.append(row_of(step));
    for (int attempt = 0; attempt < 2; ++attempt)
      expect_error(ExitCode::kIo, {"cannot lengthen " + path.string() + " to"},
                   [&] { writer.append(row_of(17)); });
    EXPECT_EQ(writer.rows(), 16);
  }
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  expect_losses(path, 16);
}

TEST(MetricsRows, are_told_to_readers_while_the_file_grows) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "metrics.h5";
  MetricsWriter writer(path, header_for(100));
  for (std::int64_t step = 1; step <= 3; ++step) {
    writer.append(row_of(step));
    EXPECT_EQ(hdf5::File::open(path).attribute<std::int64_t>("/", "rows"), std::vector<std::int64_t>{step});
  }
}

}  // namespace
}  // namespace sluice
