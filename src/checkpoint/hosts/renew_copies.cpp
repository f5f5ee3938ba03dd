#include "checkpoint/hosts/renew_copies.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "checkpoint/block_writer.hpp"
#include "checkpoint/hosts/fetched_blocks.hpp"
#include "comm/outcome.hpp"
#include "comm/run_together.hpp"
#include "io/staged_directory.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Receives the files that one disk lacks, in order.
class Intake {
 public:
  /// `directory` of the step may exist or not; `rank` is for fault points alone.
  Intake(const SavedStep& step, fs::path directory, int rank)
      : step_(step), directory_(std::move(directory)), rank_(rank) {
    if (has_this_step()) return;
    if (!StagedDirectory::is_free(directory_)) remove_step(directory_);
    staged_.emplace(directory_);
  }

  void add(const BlockPlace& place, const std::byte* data) {
    const SavedFile& file = step_.files[static_cast<std::size_t>(place.file)];
    const Range bytes = file.block_bytes(place.block);
    if (place.block == 0) open(file);
    out_->append({data, static_cast<std::size_t>(bytes.count())});
    if (bytes.end == file.bytes) close();
  }

  /// Adds an empty file, which has no blocks.
  void add_empty(const SavedFile& file) {
    open(file);
    close();
  }

  /// Completes the intake: all files are on disk.
  void finish() {
    if (!staged_) return;
    create_manifest(staged_->path(), step_).close();
    fault_point("checkpoint.renew", rank_);
    staged_->commit();
  }

 private:
  [[nodiscard]] bool has_this_step() const {
    if (!is_saved_step(directory_)) return false;
    const Outcome outcome = outcome_of([&] {
      if (to_manifest(read_manifest(directory_)) != to_manifest(step_))
        fail(ExitCode::kBadData, "the manifest here differs from the step's manifest");
    });
    return !outcome.failed();
  }

  void open(const SavedFile& file) {
    target_ = (staged_ ? staged_->path() : directory_) / file.name;
    std::error_code error;
    fs::create_directories(target_.parent_path(), error);
    written_ = staged_ ? target_ : name_beside(target_, "partial");
    out_.emplace(written_, rank_);
  }

  void close() {
    out_->close();
    out_.reset();
    if (staged_) return;
    fault_point("checkpoint.renew", rank_);
    std::error_code error;
    fs::rename(written_, target_, error);
    if (error)
      fail(ExitCode::kIo, "cannot rename {} to {}: {}", written_.string(), target_.string(), error.message());
    sync_directory(target_.parent_path());
  }

  const SavedStep& step_;
  fs::path directory_;
  int rank_;
  std::optional<StagedDirectory> staged_;
  fs::path written_, target_;
  std::optional<BlockWriter> out_;
};

/// The disk for the copy of a rank's file: the one behind the disk that has the file.
int disk_for_copy(int holder, const RankDisks& disks) { return (holder + 1) % disks.count(); }

/// Blocks that a rank must receive, each with the rank that reads it.
std::vector<WantedBlock> blocks_of(const SavedStep& step, std::span<const MissingFile> missing,
                                   const StepReaders& readers, int rank) {
  std::vector<WantedBlock> wanted;
  for (const MissingFile& lack : missing)
    for (std::size_t block = 0; block < step.files[static_cast<std::size_t>(lack.file)].blocks.size();
         ++block)
      wanted.push_back({{lack.file, static_cast<std::int64_t>(block)}, readers.reader_of(lack.file, rank)});
  return wanted;
}

}  // namespace

std::vector<MissingFile> missing_files(const SavedStep& step, const FileHolders& holders,
                                       const RankDisks& disks) {
  std::vector<MissingFile> missing;
  for (int file = 0; file < std::ssize(step.files); ++file) {
    const std::vector<int>& there = holders[static_cast<std::size_t>(file)];
    if (!step.files[static_cast<std::size_t>(file)].entries.empty()) {
      if (there.size() == 1) missing.push_back({file, disk_for_copy(there.front(), disks)});
      continue;
    }
    for (int disk = 0; disk < disks.count(); ++disk)
      if (std::ranges::find(there, disk) == there.end()) missing.push_back({file, disk});
  }
  std::ranges::sort(missing, {}, [](const MissingFile& lack) { return std::tuple(lack.disk, lack.file); });
  return missing;
}

std::int64_t bring_files(Communicator& comm, const HeldStep& held, const RankDisks& disks,
                         const fs::path& path, const std::vector<MissingFile>& missing,
                         double limit_seconds) {
  const SavedStep& step = held.found.step;
  std::int64_t bytes = 0;
  std::vector<MissingFile> own;
  for (const MissingFile& lack : missing) {
    bytes += step.files[static_cast<std::size_t>(lack.file)].bytes;
    if (disks.first_rank(lack.disk) == comm.rank()) own.push_back(lack);
  }
  if (missing.empty()) return 0;
  std::optional<Intake> intake;
  run_together(comm, [&] {
    if (own.empty()) return;
    intake.emplace(step, path, comm.rank());
    for (const MissingFile& lack : own)
      if (const SavedFile& file = step.files[static_cast<std::size_t>(lack.file)]; file.bytes == 0)
        intake->add_empty(file);
  });
  fetch_blocks(comm, step, path, blocks_of(step, own, StepReaders(held.holders, disks), comm.rank()),
               limit_seconds,
               [&](const BlockPlace& place, const std::byte* data) { intake->add(place, data); });
  run_together(comm, [&] {
    if (intake) intake->finish();
  });
  return bytes;
}

std::int64_t renew_copies(Communicator& comm, const HeldStep& held, const RankDisks& disks,
                          double limit_seconds) {
  return bring_files(comm, held, disks, held.found.path, missing_files(held.found.step, held.holders, disks),
                     limit_seconds);
}

}  // namespace sluice
