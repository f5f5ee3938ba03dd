#include "load/in_files/units_in_files.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/trace/recorder.hpp"
#include "weights/checkpoint_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace sluice {
namespace {

std::span<std::byte> part_of(const MemoryBlock& block, std::int64_t begin, std::int64_t bytes) {
  return {block.data() + begin, static_cast<std::size_t>(bytes)};
}

}  // namespace

UnitsInFiles::UnitsInFiles(const StoredLayout& layout, const ParameterManifest& manifest,
                           const CheckpointIndex& index, const CheckpointMatch& match,
                           const std::filesystem::path& directory, std::span<const int> units,
                           double limit_seconds)
    : layout_(layout),
      manifest_(manifest),
      limit_seconds_(limit_seconds),
      units_(units.begin(), units.end()),
      reads_(plan_unit_reads(layout, units, index, match)),
      blocks_(allocate(MemoryKind::kPrivate, kSourceReadBytes, "a read of a weight file")),
      workers_("a thread that reads weights from files") {
  std::int64_t largest = 0, scales = 0;
  for (const auto& [unit, reads] : reads_) {
    largest = std::max(largest, layout.own_bytes(unit).count());
    scales += reads.scale_bytes;
  }
  for (Slot& slot : slots_) slot.block = allocate(MemoryKind::kPrivate, largest, "weights from files");
  scales_ = allocate(MemoryKind::kPrivate, scales, "scales of weights in files");
  open_files(index, directory);
  for (const int unit : units_) read_scales(index, directory, unit);
  workers_.start(1, [this] { return next_read(); });
}

void UnitsInFiles::open_files(const CheckpointIndex& index, const std::filesystem::path& directory) {
  for (const auto& [unit, reads] : reads_)
    for (const DirectRead& read : reads.reads) {
      if (files_.contains(read.file)) continue;
      InputFile file = open_source(directory, index.files[static_cast<std::size_t>(read.file)]);
      std::optional<InputFile> direct = InputFile::open_direct(file.path());
      const bool is_direct = direct.has_value();
      files_.emplace(read.file, File{is_direct ? *std::move(direct) : std::move(file), is_direct});
    }
}

void UnitsInFiles::read_scales(const CheckpointIndex& index, const std::filesystem::path& directory,
                               int unit) {
  const UnitReads& reads = reads_.at(unit);
  std::int64_t place = reads.scales_begin;
  std::optional<InputFile> file;
  int opened = kNone;
  for (const StoredLayout::OwnRun& run : reads.runs) {
    run.encoding->read_scales(run.scale_range(), [&](int from, std::int64_t offset, std::int64_t bytes) {
      if (from != opened) {
        file = open_source(directory, index.files[static_cast<std::size_t>(from)]);
        file->advise_random();
        opened = from;
      }
      file->read_at(offset, part_of(scales_, place, bytes));
      // The kernel drops only whole pages, so the range begins at a page boundary.
      const std::int64_t before = offset % InputFile::kBlockBytes;
      file->drop_cache(offset - before, before + bytes);
      place += bytes;
    });
  }
}

void UnitsInFiles::begin_pass(Order order) {
  const Workers::Lock lock = workers_.lock();
  order_ = order;
}

void UnitsInFiles::examine_first(std::function<void(int unit, const std::byte* bytes)> examine) {
  Workers::Lock lock = workers_.lock();
  for (Slot& slot : slots_) {
    wait(lock, slot);
    slot.unit = kNone;
  }
  examinations_.push_back(std::move(examine));
}

std::byte* UnitsInFiles::bytes(int unit) {
  const trace::Span span(trace::Kind::kWait, "files", unit);
  Workers::Lock lock = workers_.lock();
  Slot& slot = slot_for(lock, unit);
  wait(lock, slot);
  current_ = unit;
  Slot& other = &slot == slots_.data() ? slots_[1] : slots_[0];
  const int next = next_after(unit);
  if (next != kNone && next != other.unit && other.is_there) start_reading(other, next);
  return slot.block.data();
}

UnitsInFiles::Slot& UnitsInFiles::slot_for(Workers::Lock& lock, int unit) {
  SLUICE_ASSERT(reads_.contains(unit), "unit {} does not lie in files", unit);
  for (Slot& slot : slots_)
    if (slot.unit == unit) return slot;
  Slot& slot = slots_[0].unit == current_ ? slots_[1] : slots_[0];
  wait(lock, slot);  // another unit may be being read into the slot
  start_reading(slot, unit);
  return slot;
}

void UnitsInFiles::start_reading(Slot& slot, int unit) {
  slot.unit = unit;
  slot.is_there = false;
  asked_ = &slot;
  workers_.notify();
}

int UnitsInFiles::next_after(int unit) const {
  const auto at = std::ranges::lower_bound(units_, unit);
  if (order_ == Order::kForward) return at + 1 == units_.end() ? kNone : *(at + 1);
  return at == units_.begin() ? kNone : *(at - 1);
}

void UnitsInFiles::wait(Workers::Lock& lock, const Slot& slot) {
  if (!workers_.wait(
          lock, [&] { return slot.is_there; }, limit_seconds_))
    fail({ExitCode::kIo, "io.stalled"}, "{} was not read within {:g} s: the disk does not answer",
         files_.begin()->second.file.path().parent_path().string(), limit_seconds_);
}

std::int64_t UnitsInFiles::read_bytes() const {
  const Workers::Lock lock = workers_.lock();
  return read_bytes_;
}

Workers::Task UnitsInFiles::next_read() {
  if (asked_ == nullptr) return {};
  return [this, &slot = *std::exchange(asked_, nullptr)] {
    fault_point("in_files.read", layout_.rank());
    read_unit(slot.unit, slot.block.data());
    const Workers::Lock lock = workers_.lock();
    read_bytes_ += reads_.at(slot.unit).read_bytes();
    slot.is_there = true;
    workers_.notify();
  };
}

void UnitsInFiles::read_unit(int unit, std::byte* out) {
  UnitReads& reads = reads_.at(unit);
  const trace::Span span(trace::Kind::kDisk, "read", unit, reads.read_bytes());
  copy_scales(reads, out);
  std::vector<Digest> digests(reads.runs.size());
  for (const DirectRead& read : reads.reads) {
    read_blocks(reads, read);
    for (const ReadCopy& copy : read.copies) {
      std::memcpy(out + copy.to, blocks_.data() + copy.from, static_cast<std::size_t>(copy.bytes));
      digests[static_cast<std::size_t>(copy.run)] +=
          digest_of(part_of(blocks_, copy.from, copy.bytes), static_cast<std::uint64_t>(copy.to));
    }
  }
  require_unchanged(reads, digests);
  for (; reads.examined < examinations_.size(); ++reads.examined) examinations_[reads.examined](unit, out);
}

void UnitsInFiles::copy_scales(const UnitReads& reads, std::byte* out) const {
  const std::byte* scales = scales_.data() + reads.scales_begin;
  for (const StoredLayout::OwnRun& run : reads.runs) {
    const std::int64_t bytes = run.encoding->scale_bytes(run.scale_range());
    std::memcpy(out + run.scales, scales, static_cast<std::size_t>(bytes));
    scales += bytes;
  }
}

void UnitsInFiles::require_unchanged(UnitReads& reads, const std::vector<Digest>& digests) const {
  for (std::size_t run = 0; run < digests.size(); ++run) {
    std::optional<Digest>& first = reads.digests[run];
    if (first && *first != digests[run])
      fail(
          {ExitCode::kBadData, "weights.changed"},
          "{}: the bytes of {} are not those that were read before: the file was changed while the job runs. "
          "Expected files that stay as they are, because memory.offload = \"source\" reads them in every step",
          path_of(reads, static_cast<int>(run)), tensor_of(reads, static_cast<int>(run)));
    first = digests[run];
  }
}

void UnitsInFiles::read_blocks(const UnitReads& reads, const DirectRead& read) try {
  const File& source = files_.at(read.file);
  const std::int64_t needed = read.copies.back().from + read.copies.back().bytes;
  source.file.read_at_least(needed, read.offset, part_of(blocks_, 0, read.bytes));
  if (!source.is_direct) source.file.drop_cache(read.offset, read.bytes);
} catch (const Error& error) {
  fail(error.cause(), "{} (codes of {}, which memory.offload = \"source\" reads in every step)", error.what(),
       tensor_of(reads, read.copies.front().run));
}

std::string UnitsInFiles::path_of(const UnitReads& reads, int run) const {
  for (const DirectRead& read : reads.reads)
    if (std::ranges::find(read.copies, run, &ReadCopy::run) != read.copies.end())
      return files_.at(read.file).file.path().string();
  return "";
}

std::string UnitsInFiles::tensor_of(const UnitReads& reads, int run) const {
  const StoredLayout::OwnRun& own = reads.runs[static_cast<std::size_t>(run)];
  const TensorInfo& tensor = manifest_[own.tensor];
  return fmt::format("{} (expert {})", tensor.name,
                     own.tensor_begin / (tensor.element_count() / tensor.shape.front()));
}

}  // namespace sluice
