#include "checkpoint/save.hpp"

#include "base/byte_stream.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "checkpoint/block_reader.hpp"
#include "checkpoint/hosts/held_steps.hpp"
#include "checkpoint/rank_file_thread.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/outcome.hpp"
#include "comm/run_together.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Seconds between two meetings of ranks that only write, so that a failure is known soon.
constexpr double kMeetingSeconds = 0.2;

/// Bytes sent to other hosts as copies of ranks' files.
std::int64_t copied_bytes(const SavedStep& step) {
  std::int64_t bytes = 0;
  for (const SavedFile& file : step.files) bytes += file.hosts.size() > 1 ? file.bytes : 0;
  return bytes;
}

/// Fails if a rank saved other numbers than the rank of equal number in an earlier set.
void require_same(const SavedFile& earlier, const SavedFile& file, int rank) {
  if (earlier.bytes == file.bytes && earlier.blocks == file.blocks) return;
  fail(
      {ExitCode::kInternal, "train.ranks_differ"},
      "{} of rank {} differs from that of another copy of the model, expected the same bytes. Likely cause: a fault "
      "of memory or processor. Go on from the last saved step",
      file.name, rank);
}

std::string read_block(const InputFile& in, Range bytes) {
  std::string block(static_cast<std::size_t>(bytes.count()), '\0');
  in.read_at(bytes.begin, std::as_writable_bytes(std::span(block)));
  return block;
}

/// Description of an existing file, as the manifest lists it.
SavedFile describe_file(const fs::path& directory, const fs::path& name) {
  const InputFile in = InputFile::open(directory / name);
  SavedFile file{name.string(), in.size_bytes(), {}, {}};
  for (std::int64_t number = 0; number < file.block_count(); ++number) {
    const std::string block = read_block(in, file.block_bytes(number));
    file.blocks.push_back(digest_of(std::as_bytes(std::span(block)), 0));
  }
  return file;
}

}  // namespace

StepSave::StepSave(Communicator& comm, SaveRequest request)
    : comm_(comm),
      request_(std::move(request)),
      target_(request_.directory / step_name(request_.description.step)),
      disks_(request_.disks.value_or(RankDisks::shared(comm.size()))) {
  if (const int set_ranks = comm.size() / request_.sets;
      !disks_.has_earlier_counterpart(comm.rank(), set_ranks))
    writing_ = std::make_shared<RankFileThread>(request_.manifest, request_.state, request_.paged,
                                                request_.limit_seconds, comm.rank(), comm.rank() % set_ranks);
  request_.state = {};  // drops the spans, one for each run of each array, since the writer has them
  run_together(comm_, [&] {
    if (is_first()) staged_.emplace(target_, IfTaken::kNextName);
  });
  const std::vector<std::string> staged = comm_.all_gather_text(staged_ ? staged_->path().string() : "");
  const fs::path directory = staged[static_cast<std::size_t>(disks_.first_rank(disks_.of(comm_.rank())))];
  try {
    const std::optional<CopyTarget> target = exchange_targets();
    run_together(comm_, [&] {
      fault_point("checkpoint.create", comm_.rank());
      for (const auto& copy : incoming_) IncomingCopy::start(copy, directory);
      if (writing_) RankFileThread::start(writing_, directory, target);
    });
  } catch (...) {
    stop();
    throw;
  }
  waited_seconds_ = since_begin_.seconds();
}

StepSave::~StepSave() { stop(); }

void StepSave::stop() {
  if (writing_) writing_->stop();
  for (const auto& copy : incoming_) copy->stop();
}

/// Collective over `comm`. Opens what receives copies of other ranks' files; returns where this rank's copy
/// goes.
std::optional<CopyTarget> StepSave::exchange_targets() {
  if (!request_.has_copies) return std::nullopt;
  ByteWriter own;
  run_together(comm_, [&] {
    for (int rank = 0; rank < comm_.size(); ++rank) {
      if (disks_.partner(rank) != comm_.rank()) continue;
      incoming_.push_back(std::make_shared<IncomingCopy>(rank, comm_.rank(), request_.limit_seconds));
      own.text(incoming_.back()->target().to_text());
    }
  });
  const std::vector<std::string> all = comm_.all_gather_text(own.bytes());
  const std::string& partner = all[static_cast<std::size_t>(disks_.partner(comm_.rank()))];
  for (ByteReader in(partner); !in.at_end();)
    if (CopyTarget target = CopyTarget::from_text(in.text()); target.rank == comm_.rank()) return target;
  SLUICE_ASSERT(false, "rank {} takes in no copy of rank {}", disks_.partner(comm_.rank()), comm_.rank());
  return std::nullopt;
}

void StepSave::keep(int unit) {
  if (!writing_) return;
  const Stopwatch watch;
  writing_->keep(unit);
  waited_seconds_ += watch.seconds();
}

bool StepSave::is_written() const {
  return (!writing_ || writing_->has_ended()) &&
         std::ranges::all_of(incoming_, [](const auto& copy) { return copy->has_ended(); });
}

SaveReport StepSave::finish() {
  const Stopwatch watch;
  wait_until_written();
  const std::vector<std::string> files = comm_.all_gather_text(writing_ ? to_text(writing_->file()) : "");
  run_together(comm_, [&] {
    for (const auto& copy : incoming_)
      copy->require(saved_file_from(files[static_cast<std::size_t>(copy->target().rank)]));
  });
  SavedStep step;
  run_on_root(comm_, [&] { step = complete(files); });
  if (disks_.count() > 1) {
    step = parse_manifest(comm_.broadcast_text(is_root() ? to_manifest(step) : "", 0),
                          std::string(kManifestFile));
    request_.description.attempt = step.attempt;  // the number of the attempt, which only rank 0 may know
    share_companions(step);
  }
  SaveReport report{.bytes = step.bytes(), .copied_bytes = request_.has_copies ? copied_bytes(step) : 0};
  run_together(comm_, [&] {
    if (is_first()) write_manifest(step);
  });
  commit();
  prune();
  report.best = request_.description.best;
  report.seconds = since_begin_.seconds();
  report.waited_seconds = waited_seconds_ + watch.seconds();
  return report;
}

/// Waits until all is written. Ranks meet meanwhile, so that none waits for another longer than the deadlines
/// of communication allow.
void StepSave::wait_until_written() {
  for (std::int64_t writing = 1; writing != 0;) {
    try {
      run_together(comm_, [&] {
        if (writing_) writing_->wait(kMeetingSeconds);
        if (!writing_ || writing_->has_ended()) wait_for_copies(kMeetingSeconds);
      });
    } catch (const SharedError&) {
      // A sender only learns that the other end has closed, but the other end knows why.
      run_together(comm_, [&] { wait_for_copies(kMeetingSeconds); });
      throw;
    }
    writing = is_written() ? 0 : 1;
    comm_.all_reduce_max(std::span(&writing, 1));
  }
}

void StepSave::wait_for_copies(double seconds) {
  for (const auto& copy : incoming_) copy->wait(seconds);
}

/// Called on rank 0. Adds the companion files, and returns the step with all of its files.
SavedStep StepSave::complete(const std::vector<std::string>& files) const {
  SavedStep step = request_.description;
  if (disks_.count() > 1) step.hosts = request_.hosts;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (files[static_cast<std::size_t>(rank)].empty()) continue;
    SavedFile file = saved_file_from(files[static_cast<std::size_t>(rank)]);
    if (const auto same = std::ranges::find(step.files, file.name, &SavedFile::name);
        same != step.files.end()) {
      require_same(*same, file, rank);
      same->hosts.push_back(disks_.of(rank));
      continue;
    }
    if (disks_.count() > 1) file.hosts = {disks_.of(rank)};
    if (request_.has_copies) file.hosts.push_back(disks_.of(disks_.partner(rank)));
    step.files.push_back(std::move(file));
  }
  copy_files(request_.companions, staged_->path());
  for (const CompanionFile& companion : request_.companions)
    step.files.push_back(describe_file(staged_->path(), companion.name));
  return step;
}

/// Collective over `comm`. Sends companion files from rank 0's disk to the other disks, a block at a time.
void StepSave::share_companions(const SavedStep& step) const {
  for (const SavedFile& file : step.files) {
    if (!file.hosts.empty()) continue;  // a rank's file
    std::optional<InputFile> in;
    std::optional<OutputFile> out;
    run_together(comm_, [&] {
      if (is_root()) in.emplace(InputFile::open(staged_->path() / file.name));
      if (is_root() || !is_first()) return;
      const fs::path path = staged_->path() / file.name;
      fs::create_directories(path.parent_path());
      out.emplace(OutputFile::create(path));
    });
    for (std::int64_t number = 0; number < file.block_count(); ++number) {
      const Range bytes = file.block_bytes(number);
      const std::string block = share_from_root(comm_, [&] { return read_block(*in, bytes); });
      run_together(comm_, [&] {
        if (out) out->write_at(bytes.begin, std::as_bytes(std::span(block)));
      });
    }
    run_together(comm_, [&] {
      if (out) out->close();
    });
  }
}

/// Writes the manifest; called on the first rank of each disk.
void StepSave::write_manifest(const SavedStep& step) const {
  fault_point("checkpoint.manifest", comm_.rank());
  OutputFile manifest = create_manifest(staged_->path(), step);
  fault_point("checkpoint.manifest", comm_.rank());
  manifest.close();
}

/// Replaces a step of the same number: this training may have gone back behind it; or, if this rank was cut
/// off and the job was started again without it, a later attempt has saved it.
void StepSave::replace_step() const {
  std::int64_t attempt = 0;
  // A broken step may be replaced.
  static_cast<void>(outcome_of([&] { attempt = read_saved_step(target_).attempt; }));
  if (attempt > request_.description.attempt)
    fail(ExitCode::kInternal,
         "{} was saved by attempt {} of this run, and this is attempt {}, which does not count any more",
         target_.string(), attempt, request_.description.attempt);
  remove_step(target_);
}

/// Collective over `comm`. Gives the step its name on each disk; if that fails on one disk, it is undone on
/// the others.
void StepSave::commit() {
  bool is_named = false;
  try {
    run_together(comm_, [&] {
      if (!is_first()) return;
      if (!StagedDirectory::is_free(target_)) replace_step();
      fault_point("checkpoint.commit", comm_.rank());
      staged_->commit();
      is_named = true;
      fault_point("checkpoint.commit", comm_.rank());
    });
  } catch (...) {
    if (is_named && disks_.count() > 1) static_cast<void>(outcome_of([&] { remove_step(target_); }));
    throw;
  }
}

/// Collective over `comm`. Removes old steps; what one disk lacks of them counts too, since a host may have
/// been away.
void StepSave::prune() const {
  run_together(comm_, [&] {
    if (!is_first()) return;
    for (const fs::path& path : request_.superseded)
      if (path != target_ && !StagedDirectory::is_free(path)) remove_step(path);
  });
  const std::vector<StepPlace> steps = HeldSteps(comm_, disks_, request_.directory).steps();
  run_together(comm_, [&] {
    if (!is_first()) return;
    for (const StepPlace& place :
         steps_to_remove(steps, request_.keep, request_.keep_every, request_.description.best.step))
      if (!StagedDirectory::is_free(place.path)) remove_step(place.path);
  });
}

SaveReport save_step(Communicator& comm, SaveRequest request) {
  return StepSave(comm, std::move(request)).finish();
}

}  // namespace sluice
