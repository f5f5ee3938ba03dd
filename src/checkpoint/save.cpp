#include "checkpoint/save.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/round.hpp"
#include "checkpoint/block_reader.hpp"
#include "checkpoint/rank_file.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/run_together.hpp"
#include "weights/staged_directory.hpp"
#include "weights/weight_files.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// What ranks write between two meetings: none waits for more than this, and a failure is known soon.
constexpr std::int64_t kWriteRoundBytes = 256 * kMiB;

/// A file that is there already, as the manifest lists it.
SavedFile describe_file(const fs::path& path) {
  const InputFile in = InputFile::open(path);
  SavedFile file{path.filename().string(), in.size_bytes(), {}, {}};
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(kDigestBlockBytes, file.bytes)));
  for (std::int64_t begin = 0; begin < file.bytes; begin += kDigestBlockBytes) {
    const auto count = static_cast<std::size_t>(std::min(kDigestBlockBytes, file.bytes - begin));
    in.read_at(begin, std::span(block).first(count));
    file.blocks.push_back(digest_of(std::span(block).first(count), 0));
  }
  return file;
}

class Saver {
 public:
  Saver(Communicator& comm, const SaveRequest& request)
      : comm_(comm),
        request_(request),
        target_(request.directory / step_name(request.description.step)),
        writer_(request.manifest, request.state, comm.rank()) {}

  SaveReport run() {
    const Stopwatch watch;
    run_together(comm_, [&] {
      if (is_root()) staged_.emplace(target_, IfTaken::kNextName);
    });
    const fs::path directory = comm_.broadcast_text(staged_ ? staged_->path().string() : "", 0);
    run_together(comm_, [&] {
      fault_point("checkpoint.create", comm_.rank());
      writer_.create(directory);
    });
    std::int64_t rounds = divide_up(writer_.bytes(), kWriteRoundBytes);
    comm_.all_reduce_max(std::span(&rounds, 1));
    for (; rounds > 0; --rounds) run_together(comm_, [&] { writer_.write(kWriteRoundBytes); });
    std::string mine;
    run_together(comm_, [&] { mine = to_text(writer_.close()); });
    const std::vector<std::string> files = comm_.all_gather_text(mine);
    SaveReport report;
    run_on_root(comm_, [&] { report.bytes = publish(files); });
    run_on_root(comm_, [&] { prune(); });
    report.seconds = watch.seconds();
    return report;
  }

 private:
  [[nodiscard]] bool is_root() const { return comm_.rank() == 0; }

  /// Rank 0. Returns the bytes of all files.
  std::int64_t publish(const std::vector<std::string>& files) {
    SavedStep step = request_.description;
    for (const std::string& file : files) step.files.push_back(saved_file_from(file));
    copy_files(request_.companions, staged_->path());
    for (const fs::path& companion : request_.companions)
      step.files.push_back(describe_file(staged_->path() / companion.filename()));
    fault_point("checkpoint.manifest", 0);
    OutputFile manifest = OutputFile::create(staged_->path() / kManifestFile);
    const std::string text = to_manifest(step);
    manifest.write_at(0, std::as_bytes(std::span(text)));
    fault_point("checkpoint.manifest", 0);
    manifest.close();
    // A step of this number may be one that this training has gone back behind.
    if (!StagedDirectory::is_free(target_)) remove_step(target_);
    fault_point("checkpoint.commit", 0);
    staged_->commit();
    fault_point("checkpoint.commit", 0);
    return step.bytes();
  }

  /// Rank 0.
  void prune() const {
    for (const fs::path& path : request_.superseded)
      if (path != target_ && !StagedDirectory::is_free(path)) remove_step(path);
    for (const StepPlace& place :
         steps_to_remove(list_steps(request_.directory), request_.keep, request_.keep_every))
      remove_step(place.path);
  }

  Communicator& comm_;
  const SaveRequest& request_;
  fs::path target_;
  RankFileWriter writer_;
  std::optional<StagedDirectory> staged_;  ///< on rank 0
};

}  // namespace

SaveReport save_step(Communicator& comm, const SaveRequest& request) { return Saver(comm, request).run(); }

}  // namespace sluice
