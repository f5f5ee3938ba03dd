#include "io/paged_file.hpp"

#include "base/bytes.hpp"
#include "base/fault.hpp"
#include "base/memory/memory.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kRegion = 20 * kMiB;  // more than two transfers

/// Memory for some regions, with a file behind it.
class Pages {
 public:
  explicit Pages(int regions, double limit_seconds = 60) : bytes_(regions * kRegion) {
    data_ = static_cast<std::byte*>(::mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    file_ = std::make_unique<PagedFile>(directory_.path(), bytes_, 0, limit_seconds);
    for (int i = 0; i < regions; ++i) file_->add(region(i));
  }
  ~Pages() {
    file_.reset();
    ::munmap(data_, static_cast<std::size_t>(bytes_));
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] std::span<std::byte> region(int index) const {
    return {data_ + index * kRegion, static_cast<std::size_t>(kRegion)};
  }
  // By the C library, which a sanitizer looks at once a call, not once a byte.
  void fill(int index, int value) const { std::memset(region(index).data(), value, region(index).size()); }
  void expect(int index, int value) const {
    const std::span<std::byte> bytes = region(index);
    EXPECT_TRUE(bytes[0] == static_cast<std::byte>(value) &&
                std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0)
        << "region " << index;
  }
  PagedFile& file() { return *file_; }
  [[nodiscard]] const fs::path& directory() const { return directory_.path(); }

 private:
  test::TemporaryDirectory directory_;
  std::int64_t bytes_;
  std::byte* data_ = nullptr;
  std::unique_ptr<PagedFile> file_;
};

TEST(PagedFile, what_is_mapped_for_reading_can_be_mapped_for_writing_too) {
  Pages pages(1);
  pages.fill(0, 1);
  pages.file().page();
  pages.file().map(PagedFile::Access::kRead);
  pages.file().map(PagedFile::Access::kWrite);
  pages.fill(0, 2);
  pages.file().page();
  pages.file().acquire(0);
  pages.expect(0, 2);
}

TEST(PagedFile, is_read_beside_the_passes_as_it_lies_on_the_disk) {
  Pages pages(2);
  for (int i = 0; i < 2; ++i)
    for (std::int64_t at = 0; at < kRegion; ++at)
      pages.region(i)[static_cast<std::size_t>(at)] = static_cast<std::byte>(i + at % 251);
  pages.file().page();
  pages.file().acquire(1);
  alignas(PagedFile::kAlignment) static std::array<std::byte, PagedFile::peek_room(3 * kMiB)> room;
  for (const int region : {0, 1})
    for (const auto& [offset, bytes] : {std::pair(std::int64_t{0}, std::int64_t{1}),
                                        {4095, 4098},
                                        {kRegion - 3, 3},
                                        {7 * kMiB + 5, 3 * kMiB}}) {
      const std::byte* const found = pages.file().peek(region, offset, bytes, room);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < bytes; ++i)
        wrong += found[i] == static_cast<std::byte>(region + (offset + i) % 251) ? 0 : 1;
      EXPECT_EQ(wrong, 0) << bytes << " bytes at " << offset;
    }
  pages.file().release(1, PagedFile::Content::kUnchanged, PagedFile::Memory::kFreed);
}

TEST(PagedFile, what_is_written_mapped_again_is_read_paged) {
  Pages pages(2);
  pages.fill(0, 1);
  pages.file().page();
  pages.file().map(PagedFile::Access::kWrite);
  pages.fill(0, 2);
  pages.file().page();
  pages.file().acquire(0);
  pages.expect(0, 2);
  pages.file().release(0, PagedFile::Content::kUnchanged, PagedFile::Memory::kFreed);
}

TEST(PagedFile, what_was_written_mapped_is_read_paged_and_the_other_way_round) {
  Pages pages(3);
  for (int i = 0; i < 3; ++i) pages.fill(i, i + 1);
  pages.file().page();
  for (int i = 0; i < 3; ++i) {
    pages.file().acquire(i);
    pages.expect(i, i + 1);
    pages.fill(i, i + 11);
    pages.file().release(i, PagedFile::Content::kWritten, PagedFile::Memory::kFreed);
  }
  pages.file().acquire(1);  // perhaps still on its way out
  pages.expect(1, 12);
  pages.file().release(1, PagedFile::Content::kUnchanged, PagedFile::Memory::kFreed);
  pages.file().map();
  for (int i = 0; i < 3; ++i) pages.expect(i, i + 11);
  pages.file().page();
  pages.file().acquire(0);
  pages.expect(0, 11);
  pages.file().release(0, PagedFile::Content::kUnchanged, PagedFile::Memory::kFreed);
  EXPECT_EQ(pages.file().written_bytes(), 3 * kRegion);
}

TEST(PagedFile, a_region_is_zero_until_it_is_written) {
  Pages pages(1);
  pages.file().page();
  pages.file().acquire(0);
  pages.expect(0, 0);
  pages.file().release(0, PagedFile::Content::kUnchanged, PagedFile::Memory::kFreed);
}

TEST(PagedFile, nothing_but_the_regions_in_use_takes_memory) {
  const std::int64_t before = sample_memory().anonymous_bytes;
  Pages pages(6);
  for (int i = 0; i < 6; ++i) pages.fill(i, 1);
  pages.file().page();
  pages.file().set_budget(2 * kRegion);
  for (int i = 0; i < 6; ++i) {
    pages.file().acquire(i);
    if (i < 5) pages.file().prefetch(i + 1);
    EXPECT_LT(sample_memory().anonymous_bytes - before, 2 * kRegion + 4 * kMiB);
    pages.file().release(i, PagedFile::Content::kWritten, PagedFile::Memory::kFreed);
  }
  pages.file().finish();
  EXPECT_LT(sample_memory().anonymous_bytes - before, 4 * kMiB);
}

TEST(PagedFile, a_region_that_is_kept_is_not_read_again) {
  Pages pages(1);
  pages.fill(0, 7);
  pages.file().page();
  for (int i = 0; i < 3; ++i) {
    pages.file().acquire(0);
    pages.file().release(0, PagedFile::Content::kWritten, PagedFile::Memory::kKept);
  }
  pages.file().acquire(0);
  pages.expect(0, 7);
  EXPECT_EQ(pages.file().read_bytes(), kRegion);
  pages.file().release(0, PagedFile::Content::kUnchanged, PagedFile::Memory::kFreed);
}

TEST(PagedFile, leaves_no_name_behind) {
  Pages pages(1);
  EXPECT_TRUE(fs::is_empty(pages.directory()));
}

TEST(PagedFile, memory_is_no_place_for_it) {
  test::expect_error(ExitCode::kBadConfig, {"memory.offload_path", "/dev/shm", "tmpfs"},
                     [] { const PagedFile file("/dev/shm", kMiB, 0, 1); });
}

TEST(PagedFile, a_disk_without_room_is_an_error) {
  const test::TemporaryDirectory directory;
  test::expect_error(ExitCode::kIo, {"cannot allocate", directory.path().string(), "memory.offload_path"},
                     [&] { const PagedFile file(directory.path(), std::int64_t{1} << 60, 0, 1); });
}

/// A descriptor of the file, which has no name.
int descriptor_of(const fs::path& directory) {
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (fs::read_symlink(entry.path(), error).string().starts_with(directory.string()))
      return std::stoi(entry.path().filename().string());
  }
  return -1;
}

TEST(PagedFile, bytes_that_are_not_those_written_are_never_used) {
  Pages pages(2);
  pages.fill(1, 5);
  pages.file().page();
  const char broken = 6;
  ASSERT_EQ(::pwrite(descriptor_of(pages.directory()), &broken, 1, kRegion + 12345), 1);
  ::fsync(descriptor_of(pages.directory()));
  pages.file().acquire(0);
  test::expect_error(ExitCode::kIo, {"not what was written there", pages.directory().string()},
                     [&] { pages.file().acquire(1); });
}

TEST(PagedFile, what_the_disk_refuses_is_an_error_at_the_next_use) {
  for (const std::string_view site : {"offload.read", "offload.write"}) {
    Pages pages(2);
    pages.file().page();
    static std::string_view failing;
    failing = site;
    fault_hook = [](std::string_view at, int, std::span<std::byte>) {
      if (at == failing) fail(ExitCode::kIo, "refused at {}", at);
    };
    test::expect_error(ExitCode::kIo, {"refused at"}, [&] {
      pages.file().acquire(0);
      pages.file().release(0, PagedFile::Content::kWritten, PagedFile::Memory::kFreed);
      pages.file().finish();
    });
    fault_hook = nullptr;
  }
}

TEST(PagedFile, a_disk_that_does_not_answer_is_an_error) {
  Pages pages(1, /*limit_seconds=*/0.2);
  pages.file().page();
  pages.file().set_budget(0);  // so that nothing is read
  test::expect_error(ExitCode::kIo, {"not read", "0.2 s"}, [&] { pages.file().acquire(0); });
}

}  // namespace
}  // namespace sluice
