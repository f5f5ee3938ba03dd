// Reads a plan's chunks and decides, file by file, how: past the page cache, through it, or out of it.
#pragma once

#include "config/choices.hpp"
#include "io/file.hpp"
#include "load/load_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

namespace sluice {

/// How one file is read.
enum class FileAccess : std::uint8_t {
  kBuffered,
  kDropBehind,  ///< reads go through the page cache, which forgets each chunk once it is read
  kDirect,      ///< past the page cache
};

/// A read that has been done.
struct Chunk {
  const std::byte* data = nullptr;  ///< the read's first byte, in its slot
  std::int64_t overhead_bytes = 0;  ///< read besides, because direct reads fetch whole blocks
  bool own_placed = false;          ///< own pieces that need no staging were read into the arena instead
};

class ChunkReader {
 public:
  /// The place of a piece that its reader owns and that needs no staging. Null: pieces stay in the slot.
  using OwnPlace = std::function<std::byte*(const Piece&)>;

  /// `plan` must outlive the reader.
  ChunkReader(const LoadPlan& plan, std::filesystem::path directory, CachePolicy policy, OwnPlace own_place)
      : plan_(plan), directory_(std::move(directory)), policy_(policy), own_place_(std::move(own_place)) {}

  /// Does a read. `slot` begins on a page and has LoadPlan::chunk_room() bytes. Several threads may call this
  /// at a time; each file is opened, and its access chosen and logged, at its first read. Error(kBadData) if
  /// a file is not as long as it was when the plan was made.
  [[nodiscard]] Chunk read(const Read& read, std::span<std::byte> slot);
  /// Fills the front of `room` with the scales of a read, in the order of its pieces: through the page cache,
  /// and out of it again where its file is not kept there. Errors as read().
  void read_scales(const Read& read, std::span<std::byte> room);

 private:
  struct OpenFile {
    OpenFile(InputFile open_file, FileAccess chosen, bool drop_at_end)
        : file(std::move(open_file)), access(chosen), forget(drop_at_end) {}
    ~OpenFile();
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;

    InputFile file;
    FileAccess access;
    bool forget;
  };

  /// The file that was opened last of its kind, shared by the threads.
  struct Opened {
    int file = -1;
    std::shared_ptr<const OpenFile> opened;
  };
  [[nodiscard]] std::shared_ptr<const OpenFile> file_of(int file);
  [[nodiscard]] std::shared_ptr<const OpenFile> scales_of(int file);
  [[nodiscard]] std::shared_ptr<const OpenFile> open(int file) const;
  [[nodiscard]] Chunk read_direct(const InputFile& file, const Read& read, std::span<std::byte> slot) const;
  [[nodiscard]] Chunk read_buffered(const InputFile& file, const Read& read, std::span<std::byte> slot) const;

  const LoadPlan& plan_;
  std::filesystem::path directory_;
  CachePolicy policy_;
  OwnPlace own_place_;
  std::mutex mutex_;  ///< guards what follows
  Opened chunks_;
  Opened scales_;
};

}  // namespace sluice
