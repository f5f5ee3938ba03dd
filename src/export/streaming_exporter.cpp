#include "export/streaming_exporter.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/memory/growth_sampler.hpp"
#include "base/memory/memory.hpp"
#include "comm/gather_rows.hpp"
#include "comm/outcome.hpp"
#include "comm/run_together.hpp"
#include "export/export_writer.hpp"
#include "io/path.hpp"
#include "io/staged_directory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int kWrittenTag = 33;

class Exporter {
 public:
  Exporter(Communicator& comm, const ExportPlan& plan, const ShardValues& values,
           const ExportOptions& options)
      : comm_(comm), plan_(plan), values_(values), options_(options), growth_(sample_memory()) {}

  void run(const fs::path& target) {
    run_together(comm_, [&] { create_files(target); });
    const fs::path directory = comm_.broadcast_text(staged_ ? staged_->path().string() : "", 0);
    find_ranks_elsewhere(directory);
    run_together(comm_, [&] { open_writer(directory); });
    for (file_ = 0; file_ < static_cast<int>(plan_.files().size()); ++file_) {
      before_file_ = writer_->written_bytes();
      std::span<std::int64_t> magnitudes;
      run_together(comm_, [&] { magnitudes = writer_->find_magnitudes(file_); });
      if (!magnitudes.empty()) comm_.all_reduce_max(magnitudes);
      run_together(comm_, [&] {
        if (!is_elsewhere()) writer_->write(file_);
      });
      for (const int rank : elsewhere_) write_for(rank, directory);
      done_bytes_ += bytes_of_file();
    }
    growth_.sample();
    run_together(comm_, [&] { publish(); });
  }

  [[nodiscard]] const fs::path& directory() const { return directory_; }
  [[nodiscard]] RankExport row() const {
    return {writer_->written_bytes(), writer_->copied_bytes(), writer_->staging_bytes(),
            growth_.peak_bytes()};
  }

 private:
  [[nodiscard]] std::int64_t bytes_of_file() const {
    return plan_.files()[static_cast<std::size_t>(file_)].bytes;
  }

  /// Creates every file with its length on rank 0, so that other ranks can write into it.
  void create_files(const fs::path& target) {
    if (comm_.rank() != 0) return;
    staged_.emplace(target, IfTaken::kNextName);
    for (const WeightFile& file : plan_.files())
      OutputFile::create(staged_->path() / file.name).resize(file.bytes);
  }

  void open_writer(const fs::path& directory) {
    ExportWriterOptions writing{options_.source, options_.staging_bytes, options_.keep_cached,
                                [this] { after_write(); }};
    if (is_elsewhere())
      writing.send = [this](std::int64_t offset, std::span<const std::byte> data) { send(offset, data); };
    writer_.emplace(plan_, values_, directory, std::move(writing));
  }

  /// Collective over the communicator. Finds ranks that do not see what rank 0 created, because their hosts
  /// share no file system with its host.
  void find_ranks_elsewhere(const fs::path& directory) {
    bool is_seen = false;
    run_together(comm_, [&] { is_seen = path_exists(directory); });
    const std::vector<std::string> seen = comm_.all_gather_text(is_seen ? "seen" : "");
    for (int rank = 0; rank < comm_.size(); ++rank)
      if (seen[static_cast<std::size_t>(rank)].empty()) elsewhere_.push_back(rank);
  }
  [[nodiscard]] bool is_elsewhere() const {
    return std::ranges::find(elsewhere_, comm_.rank()) != elsewhere_.end();
  }

  /// Message that a rank sends before bytes that must be written for it; after the last bytes, with `bytes`
  /// -1.
  struct Written {
    std::int64_t offset = 0;
    std::int64_t bytes = -1;
  };

  void send(std::int64_t offset, std::span<const std::byte> data) {
    const Written written{offset, std::ssize(data)};
    comm_.send(&written, sizeof written, 0, kWrittenTag).wait();
    comm_.send(data.data(), written.bytes, 0, kWrittenTag).wait();
  }

  /// Collective over the communicator. Writes the pieces of a rank that does not see the file: it sends them
  /// to rank 0, and the other ranks wait.
  void write_for(int rank, const fs::path& directory) {
    Outcome outcome;
    if (comm_.rank() == rank) {
      outcome = outcome_of([&] { writer_->write(file_); });
      const Written end;
      comm_.send(&end, sizeof end, 0, kWrittenTag).wait();
    } else if (comm_.rank() == 0) {
      outcome = receive_from(rank, directory / plan_.files()[static_cast<std::size_t>(file_)].name);
    }
    run_together(comm_, [&] { outcome.throw_if_failed(); });
  }

  /// Receives pieces of a file from a rank. After an error the rest is still received; the sender learns of
  /// the error when it is done.
  Outcome receive_from(int rank, const fs::path& path) {
    std::vector<std::byte> room(static_cast<std::size_t>(options_.staging_bytes));
    std::optional<OutputFile> out;
    Outcome outcome = outcome_of([&] { out.emplace(OutputFile::open(path)); });
    for (Written written;;) {
      comm_.receive(&written, sizeof written, rank, kWrittenTag).wait();
      if (written.bytes < 0) break;
      comm_.receive(room.data(), written.bytes, rank, kWrittenTag).wait();
      if (outcome.failed()) continue;
      outcome = outcome_of([&] {
        out->write_at(written.offset, std::span(room).first(static_cast<std::size_t>(written.bytes)));
      });
      growth_.tick();
    }
    if (!outcome.failed()) outcome = outcome_of([&] { out->close(); });
    return outcome;
  }

  void after_write() {
    growth_.tick();
    if (comm_.rank() != 0 || !options_.progress) return;
    // Ranks write at about the same pace, so rank 0's progress stands for all.
    const std::int64_t here = (writer_->written_bytes() - before_file_) * comm_.size();
    options_.progress(done_bytes_ + std::min(here, bytes_of_file() - 1), total_bytes_);
  }

  /// Publishes the directory on rank 0: writes the index, copies companion files, and renames.
  void publish() {
    if (!staged_) return;
    write_weight_index(staged_->path(), plan_.files());
    copy_files(options_.companions, staged_->path());
    directory_ = staged_->commit();
    if (options_.progress) options_.progress(total_bytes_, total_bytes_);
  }

  Communicator& comm_;
  const ExportPlan& plan_;
  const ShardValues& values_;
  const ExportOptions& options_;
  GrowthSampler growth_;
  std::optional<StagedDirectory> staged_;  ///< staged directory, on rank 0 alone
  fs::path directory_;                     ///< published directory, on rank 0 alone
  std::optional<ExportWriter> writer_;
  std::vector<int> elsewhere_;  ///< ranks that do not see the directory
  const std::int64_t total_bytes_ = plan_.file_bytes();
  int file_ = 0;                  ///< index of the file that is being written
  std::int64_t done_bytes_ = 0;   ///< bytes of finished files
  std::int64_t before_file_ = 0;  ///< bytes that this rank had written when the present file was begun
};

}  // namespace

ExportReport export_checkpoint(Communicator& comm, const ExportPlan& plan, const ShardValues& values,
                               const fs::path& target, const ExportOptions& options) {
  SLUICE_ASSERT(comm.size() == plan.shards().world() && comm.rank() == values.rank() &&
                    &values.plan() == &plan.shards(),
                "the export plan is for {} ranks, expected the number of this communicator",
                plan.shards().world());
  const Stopwatch watch;
  Exporter exporter(comm, plan, values, options);
  exporter.run(target);
  const RankExport row = exporter.row();
  log::debug(
      "export    {:.2f} s: wrote {}, {} of them copied from the source; staging {}, memory grew by {} at "
      "most",
      watch.seconds(), format_bytes(row.written_bytes), format_bytes(row.copied_bytes),
      format_bytes(row.staging_bytes), format_bytes(row.peak_growth_bytes));
  return {exporter.directory(), gather_rows(comm, row), plan.file_bytes(), watch.seconds()};
}

}  // namespace sluice
