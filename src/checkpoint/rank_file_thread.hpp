// The thread that writes a rank's file of a step while training goes on.
#pragma once

#include "checkpoint/hosts/file_copy.hpp"
#include "checkpoint/rank_file.hpp"
#include "checkpoint/saved_step.hpp"
#include "checkpoint/span_reader.hpp"
#include "checkpoint/state_spans.hpp"
#include "comm/outcome.hpp"
#include "manifest/manifest.hpp"
#include "shard/arena.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

namespace sluice {

/// Writes the file of one rank on a thread, and sends a copy of it to another host. The thread keeps this
/// alive, as it may be stuck in a call of the system.
class RankFileThread {
 public:
  /// `state` is this rank's, `paged` as in SpanReader. The manifest, and the memory of `state`, must
  /// outlive the thread. `limit_seconds`: how long the disk may take nothing. `number`: that of the file, which is
  /// the rank's own but where another rank saves the same state elsewhere.
  RankFileThread(const ParameterManifest& manifest, const std::vector<StateSpan>& state,
                 const ShardArena* paged, double limit_seconds, int rank, int number);

  /// Creates the file in `directory` and begins to write. `target`: where a copy of the file goes; nothing:
  /// there is no copy.
  static void start(const std::shared_ptr<RankFileThread>& thread, const std::filesystem::path& directory,
                    const std::optional<CopyTarget>& target);
  /// Ends the thread at its next block; abandons it if it seems to be stuck.
  void stop();

  /// Keeps a unit's state for the file; call it before the unit changes. Error(kIo) as SpanReader::keep().
  void keep(int unit) { reader_.keep(unit); }

  [[nodiscard]] bool has_ended() const;
  /// Waits `seconds` for the thread to end. Error(kIo) if it failed, or has been stuck for the limit;
  /// Error(kNumerics) if weights on a disk are not finite.
  void wait(double seconds);
  /// File that the thread has written, once it has ended without an error.
  [[nodiscard]] const SavedFile& file() const { return saved_; }

 private:
  void run();
  void send();
  void count_block();
  void require_finite(const StateSpan& span, std::span<const std::byte> bytes) const;

  const ParameterManifest& manifest_;
  bool has_disk_;
  SpanReader reader_;
  RankFileWriter file_;
  int rank_;
  double limit_seconds_;
  std::filesystem::path directory_;
  std::optional<CopyTarget> target_;
  std::stop_source stop_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  Outcome outcome_;
  SavedFile saved_;
  std::int64_t blocks_ = 0;
  double idle_seconds_ = 0;  ///< seconds without a write during waits for the thread
  bool is_sending_ = false;
  bool is_stuck_ = false;
};

}  // namespace sluice
