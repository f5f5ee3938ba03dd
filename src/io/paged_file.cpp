#include "io/paged_file.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/log.hpp"
#include "base/round.hpp"
#include "base/trace/recorder.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPieceBytes = 8 * kMiB;
constexpr double kDropSeconds = 0.5;

/// Refuses a directory in memory (tmpfs): files there take the memory that they are to save.
void require_disk(const fs::path& directory) {
  struct statfs info {};
  if (::statfs(directory.c_str(), &info) != 0)
    fail({ExitCode::kIo, "io.read"}, "memory.offload_path: cannot examine {}: {}", directory.string(),
         errno_text(errno));
  if (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC)
    fail({ExitCode::kBadConfig, "job.storage"},
         "memory.offload_path: {} lies in memory (tmpfs), expected a directory on a local disk",
         directory.string());
}

FileDescriptor open_unnamed(const fs::path& directory) {
  FileDescriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.get() >= 0) return file;
  // Name of the file where the file system has no unnamed files.
  std::string name = (directory / "sluice-offload-XXXXXX").string();
  FileDescriptor named(::mkostemp(name.data(), O_CLOEXEC));
  if (named.get() < 0)
    fail(write_failure(errno), "memory.offload_path: cannot create a file in {}: {}", directory.string(),
         errno_text(errno));
  ::unlink(name.c_str());
  return named;
}

/// Opens the file a second time for direct I/O, or through the page cache where the file system has none.
FileDescriptor open_again(int file) {
  const std::string path = fmt::format("/proc/self/fd/{}", file);
  FileDescriptor direct(::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (direct.get() >= 0) return direct;
  return FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
}

}  // namespace

PagedFile::PagedFile(const fs::path& directory, std::int64_t bytes, int rank, double limit_seconds)
    : name_(fmt::format("the offload file in {}", directory.string())),
      rank_(rank),
      limit_seconds_(limit_seconds),
      file_bytes_(bytes),
      budget_(bytes),
      workers_("moves weights and the optimizer's state",
               std::max(limit_seconds, Workers::kPatienceSeconds)) {
  create(directory, bytes);
  workers_.start(1, [this] { return next_read(); });
  workers_.start(1, [this] { return next_write(); });
}

void PagedFile::create(const fs::path& directory, std::int64_t bytes) {
  require_disk(directory);
  file_ = open_unnamed(directory);
  direct_ = open_again(file_.get());
  if (direct_.get() < 0) fail(write_failure(errno), "cannot open {}: {}", name_, errno_text(errno));
  int error = ::fallocate(file_.get(), 0, 0, bytes) == 0 ? 0 : errno;
  if (error == EOPNOTSUPP) error = ::posix_fallocate(file_.get(), 0, bytes);
  if (error != 0)
    fail(
        write_failure(error),
        "cannot allocate {} for {}: {}. memory.offload_path leads to another disk, and a larger memory.limit "
        "keeps more in memory",
        format_bytes(bytes), name_, errno_text(error));
}

int PagedFile::add(std::span<std::byte> memory) {
  const auto bytes = static_cast<std::int64_t>(memory.size());
  SLUICE_ASSERT(reinterpret_cast<std::uintptr_t>(memory.data()) % kAlignment == 0 && bytes % kAlignment == 0,
                "a region of {} bytes is not aligned to pages", bytes);
  SLUICE_ASSERT(next_offset_ + bytes <= file_bytes_, "{} bytes do not fit an offload file of {} bytes",
                next_offset_ + bytes, file_bytes_);
  const Workers::Lock lock = workers_.lock();
  regions_.push_back(
      {.data = memory.data(), .bytes = bytes, .offset = std::exchange(next_offset_, next_offset_ + bytes)});
  if (is_mapped_) map_region(regions_.back(), PROT_READ | PROT_WRITE);
  return static_cast<int>(regions_.size()) - 1;
}

void PagedFile::map_region(const Region& region, int protection) const {
  void* const place = ::mmap(region.data, static_cast<std::size_t>(region.bytes), protection,
                             MAP_SHARED | MAP_FIXED, file_.get(), region.offset);
  if (place == MAP_FAILED) fail(ExitCode::kIo, "cannot map {}: {}", name_, errno_text(errno));
}

void PagedFile::unmap_region(const Region& region) const {
  const auto length = static_cast<std::size_t>(region.bytes);
  void* const place = ::mmap(region.data, length, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED)
    log::warning("cannot unmap {}: {}", name_, errno_text(errno));
  else
    ::madvise(place, length, MADV_HUGEPAGE);
}

void PagedFile::map(Access access) {
  finish();
  const Workers::Lock lock = workers_.lock();
  if (is_mapped_ && (is_writable_ || access == Access::kRead)) return;
  is_writable_ = access == Access::kWrite;
  for (Region& region : regions_) {
    drop(region);
    map_region(region, access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE);
    if (access == Access::kWrite) region.digest.reset();
  }
  is_mapped_ = true;
  workers_.notify();
}

void PagedFile::page() {
  const Workers::Lock lock = workers_.lock();
  workers_.rethrow();
  if (!std::exchange(is_mapped_, false)) return;
  if (::fdatasync(file_.get()) != 0)
    fail(write_failure(errno), "cannot write {}: {}", name_, errno_text(errno));
  for (Region& region : regions_) {
    if (!region.digest) region.digest = digest_of_memory(region);
    unmap_region(region);
    ::posix_fadvise(file_.get(), region.offset, region.bytes, POSIX_FADV_DONTNEED);
  }
}

Digest PagedFile::digest_of_memory(const Region& region) {
  Digest digest;
  for (std::int64_t begin = 0; begin < region.bytes; begin += kPieceBytes)
    digest += digest_of(
        {region.data + begin, static_cast<std::size_t>(std::min(kPieceBytes, region.bytes - begin))},
        static_cast<std::uint64_t>(begin));
  return digest;
}

void PagedFile::set_budget(std::int64_t bytes) {
  const Workers::Lock lock = workers_.lock();
  budget_ = bytes;
}

void PagedFile::start_reading(Region& region) {
  if (region.place != Place::kDisk) return;
  region.place = Place::kComing;
  reads_.push_back(
      static_cast<int>(std::ranges::find(regions_, region.data, &Region::data) - regions_.begin()));
  workers_.notify();
}

void PagedFile::prefetch(int region) {
  const Workers::Lock lock = workers_.lock();
  start_reading(regions_[static_cast<std::size_t>(region)]);
}

void PagedFile::acquire(int region) {
  const trace::Span span(trace::Kind::kWait, "disk", region);
  Workers::Lock lock = workers_.lock();
  Region& wanted = regions_[static_cast<std::size_t>(region)];
  wanted.stays = true;  // keeps in memory a region that is being written
  start_reading(wanted);
  wait(
      lock, [&] { return wanted.place == Place::kMemory; }, "read");
  wanted.is_used = true;
}

void PagedFile::release(int region, Content content, Memory memory) {
  const Workers::Lock lock = workers_.lock();
  Region& used = regions_[static_cast<std::size_t>(region)];
  SLUICE_ASSERT(used.is_used, "region {} is not in use", region);
  used.is_used = false;
  used.stays = memory == Memory::kKept;
  if (content == Content::kWritten) {
    used.place = Place::kLeaving;
    writes_.push_back(region);
  } else if (!used.stays) {
    drop(used);
  }
  workers_.notify();
}

void PagedFile::finish() {
  const trace::Span span(trace::Kind::kWait, "disk finish");
  Workers::Lock lock = workers_.lock();
  if (is_mapped_) return workers_.rethrow();
  for (const int region : std::exchange(reads_, {}))
    regions_[static_cast<std::size_t>(region)].place = Place::kDisk;
  wait(
      lock,
      [&] {
        return std::ranges::none_of(regions_, [](const Region& region) {
          return region.place == Place::kLeaving || region.place == Place::kComing;
        });
      },
      "finish");
}

const std::byte* PagedFile::peek(int region, std::int64_t offset, std::int64_t bytes,
                                 std::span<std::byte> buffer) const {
  const std::int64_t first = offset / kAlignment * kAlignment;
  const Region part{.data = buffer.data(),
                    .bytes = round_up(offset + bytes, kAlignment) - first,
                    .offset = regions_[static_cast<std::size_t>(region)].offset + first};
  SLUICE_ASSERT(part.bytes <= std::ssize(buffer), "{} bytes do not fit a buffer of {} bytes", part.bytes,
                buffer.size());
  fault_point("offload.peek", rank_);
  move(part, 0, part.bytes, /*writes=*/false);
  return buffer.data() + (offset - first);
}

std::int64_t PagedFile::read_bytes() const {
  const Workers::Lock lock = workers_.lock();
  return read_bytes_;
}

std::int64_t PagedFile::written_bytes() const {
  const Workers::Lock lock = workers_.lock();
  return written_bytes_;
}

void PagedFile::wait(Workers::Lock& lock, const std::function<bool()>& done, const char* what) {
  if (!workers_.wait(lock, done, limit_seconds_))
    fail({ExitCode::kIo, "io.stalled"}, "{} did not {} within {:g} s: the disk does not answer", name_, what,
         limit_seconds_);
}

/// Releases a region's memory. The caller holds the mutex.
void PagedFile::drop(Region& region) {
  if (region.place == Place::kDisk) return;
  ::madvise(region.data, static_cast<std::size_t>(region.bytes), MADV_DONTNEED);
  region.place = Place::kDisk;
  held_bytes_ -= region.bytes;
}

/// Moves bytes [begin, end) of a region between memory and file.
void PagedFile::move(const Region& region, std::int64_t begin, std::int64_t end, bool writes) const {
  for (std::int64_t done = begin; done < end;) {
    const auto count = static_cast<std::size_t>(end - done);
    const ssize_t moved = writes ? ::pwrite(direct_.get(), region.data + done, count, region.offset + done)
                                 : ::pread(direct_.get(), region.data + done, count, region.offset + done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0)
      fail(moved < 0 ? write_failure(errno) : Cause(ExitCode::kIo), "cannot {} {} of {} at byte {}: {}",
           writes ? "write" : "read", format_bytes(end - done), name_, region.offset + done,
           moved < 0 ? errno_text(errno) : "it ends there");
    done += moved;
  }
}

/// Transfers a region piece by piece, and returns the sum of the pieces' checksums.
Digest PagedFile::transfer(const Region& region, bool writes) const {
  const trace::Span span(trace::Kind::kDisk, writes ? "write" : "read", -1, region.bytes);
  Digest digest;
  for (std::int64_t begin = 0; begin < region.bytes; begin += kPieceBytes) {
    const std::int64_t end = std::min(begin + kPieceBytes, region.bytes);
    move(region, begin, end, writes);
    digest += digest_of({region.data + begin, static_cast<std::size_t>(end - begin)},
                        static_cast<std::uint64_t>(begin));
  }
  return digest;
}

Workers::Task PagedFile::next_read() {
  if (reads_.empty()) return nullptr;
  Region& region = regions_[static_cast<std::size_t>(reads_.front())];
  if (held_bytes_ + region.bytes > budget_) return nullptr;
  reads_.pop_front();
  held_bytes_ += region.bytes;
  return [this, &region] { read(region); };
}

void PagedFile::read(Region& region) {
  fault_point("offload.read", rank_);
  const Digest digest = transfer(region, /*writes=*/false);
  const Workers::Lock lock = workers_.lock();
  if (region.digest && *region.digest != digest)
    fail({ExitCode::kIo, "io.damaged"},
         "{}: bytes {} to {} are not what was written there: the disk, or its driver, is broken", name_,
         region.offset, region.offset + region.bytes);
  read_bytes_ += region.bytes;
  region.place = Place::kMemory;
}

Workers::Task PagedFile::next_write() {
  if (is_mapped_ && since_drop_.seconds() >= kDropSeconds) return [this] { drop_mapped_pages(); };
  if (writes_.empty()) return nullptr;
  Region& region = regions_[static_cast<std::size_t>(writes_.front())];
  writes_.pop_front();
  return [this, &region] { write(region); };
}

void PagedFile::write(Region& region) {
  fault_point("offload.write", rank_);
  const Digest digest = transfer(region, /*writes=*/true);
  const Workers::Lock lock = workers_.lock();
  region.digest = digest;
  written_bytes_ += region.bytes;
  region.place = Place::kMemory;
  if (!region.stays) drop(region);
}

/// Writes dirty pages of the mapped file to the disk, and drops them from the page cache.
void PagedFile::drop_mapped_pages() {
  const Workers::Lock lock = workers_.lock();
  since_drop_.restart();
  if (!is_mapped_) return;
  if (::fdatasync(file_.get()) != 0)
    fail(write_failure(errno), "cannot write {}: {}", name_, errno_text(errno));
  for (const Region& region : regions_)
    ::madvise(region.data, static_cast<std::size_t>(region.bytes), MADV_DONTNEED);
  ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace sluice
