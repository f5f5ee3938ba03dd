#include "export/streaming_exporter.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/growth_sampler.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"
#include "comm/gather_rows.hpp"
#include "comm/run_together.hpp"
#include "export/export_writer.hpp"
#include "weights/staged_directory.hpp"

#include <algorithm>
#include <optional>

namespace sluice {
namespace {

namespace fs = std::filesystem;

class Exporter {
 public:
  Exporter(Communicator& comm, const ExportPlan& plan, const ShardValues& values,
           const ExportOptions& options)
      : comm_(comm), plan_(plan), values_(values), options_(options), growth_(sample_memory()) {}

  void run(const fs::path& target) {
    run_together(comm_, [&] { create_files(target); });
    const fs::path directory = comm_.broadcast_text(staged_ ? staged_->path().string() : "", 0);
    run_together(comm_, [&] { open_writer(directory); });
    for (file_ = 0; file_ < static_cast<int>(plan_.files().size()); ++file_) {
      before_file_ = writer_->written_bytes();
      run_together(comm_, [&] { writer_->write(file_); });
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

  /// Rank 0: every file at its length, so that others can write into it.
  void create_files(const fs::path& target) {
    if (comm_.rank() != 0) return;
    staged_.emplace(target, IfTaken::kNextName);
    for (const WeightFile& file : plan_.files())
      OutputFile::create(staged_->path() / file.name).resize(file.bytes);
  }

  void open_writer(const fs::path& directory) {
    writer_.emplace(plan_, values_, directory,
                    ExportWriterOptions{options_.source, options_.staging_bytes, options_.keep_cached,
                                        [this] { after_write(); }});
  }

  void after_write() {
    growth_.tick();
    if (comm_.rank() != 0 || !options_.progress) return;
    // Ranks write at about the same pace, so rank 0's share stands for all.
    const std::int64_t here = (writer_->written_bytes() - before_file_) * comm_.size();
    options_.progress(done_bytes_ + std::min(here, bytes_of_file() - 1), total_bytes_);
  }

  /// Rank 0.
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
  std::optional<StagedDirectory> staged_;  ///< on rank 0
  fs::path directory_;                     ///< the published one, on rank 0
  std::optional<ExportWriter> writer_;
  const std::int64_t total_bytes_ = plan_.file_bytes();
  int file_ = 0;                  ///< being written
  std::int64_t done_bytes_ = 0;   ///< of the files that are finished
  std::int64_t before_file_ = 0;  ///< what this rank had written when the file was begun
};

}  // namespace

ExportReport export_checkpoint(Communicator& comm, const ExportPlan& plan, const ShardValues& values,
                               const fs::path& target, const ExportOptions& options) {
  SLUICE_ASSERT(comm.size() == plan.shards().world() && comm.rank() == values.rank() &&
                    &values.plan() == &plan.shards(),
                "the export plan is for {} ranks", plan.shards().world());
  const Stopwatch watch;
  Exporter exporter(comm, plan, values, options);
  exporter.run(target);
  const RankExport row = exporter.row();
  log::debug(
      "export    {:.2f} s: wrote {}, {} of them copied from the source; staging {}, memory grew by {} at most",
      watch.seconds(), format_bytes(row.written_bytes), format_bytes(row.copied_bytes),
      format_bytes(row.staging_bytes), format_bytes(row.peak_growth_bytes));
  return {exporter.directory(), gather_rows(comm, row), plan.file_bytes(), watch.seconds()};
}

}  // namespace sluice
