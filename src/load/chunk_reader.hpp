// Reads a plan's chunks, and decides for each file whether reads go past the page cache, through it, or
// through it and out again.
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
  kDropBehind,  ///< reads go through the page cache, from which each chunk is dropped once it is read
  kDirect,      ///< reads go past the page cache
};

/// A chunk that has been read.
struct LoadedChunk {
  const std::byte* data = nullptr;  ///< first byte of the chunk, in its slot
  /// bytes read besides the payload, because direct reads fetch whole blocks
  std::int64_t overhead_bytes = 0;
  /// Whether this rank's moves that need no staging were read into the arena.
  bool own_placed = false;
};

class ChunkReader {
 public:
  /// Place in the arena of a move that its reader owns and that needs no staging. Null: all moves stay in
  /// the slot.
  using OwnPlace = std::function<std::byte*(const LoadMove&)>;

  /// `plan` must outlive the reader.
  ChunkReader(const LoadPlan& plan, std::filesystem::path directory, CachePolicy policy, OwnPlace own_place)
      : plan_(plan), directory_(std::move(directory)), policy_(policy), own_place_(std::move(own_place)) {}

  /// Reads a chunk. `slot` begins on a page and has LoadPlan::chunk_room() bytes. Several threads may call
  /// this at a time; each file is opened, and its access chosen and logged, at its first read.
  /// Error(kBadData) if a file is not as long as it was when the plan was made.
  [[nodiscard]] LoadedChunk read(const Chunk& chunk, std::span<std::byte> slot);
  /// Reads the scales of a chunk into the front of `room`, in the order of the chunk's moves: through the
  /// page cache, and out of it again unless the file is kept there. Errors as read().
  void read_scales(const Chunk& chunk, std::span<std::byte> room);

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

  /// The file of one kind (weights, or scales) that was opened last, shared by the threads.
  struct Opened {
    int file = -1;
    std::shared_ptr<const OpenFile> opened;
  };
  [[nodiscard]] std::shared_ptr<const OpenFile> file_of(int file);
  [[nodiscard]] std::shared_ptr<const OpenFile> scales_of(int file);
  [[nodiscard]] std::shared_ptr<const OpenFile> open(int file) const;
  [[nodiscard]] LoadedChunk read_direct(const InputFile& file, const Chunk& chunk,
                                        std::span<std::byte> slot) const;
  [[nodiscard]] LoadedChunk read_buffered(const InputFile& file, const Chunk& chunk,
                                          std::span<std::byte> slot) const;

  const LoadPlan& plan_;
  std::filesystem::path directory_;
  CachePolicy policy_;
  OwnPlace own_place_;
  std::mutex mutex_;  ///< guards the members below
  Opened chunks_;
  Opened scales_;
};

}  // namespace sluice
