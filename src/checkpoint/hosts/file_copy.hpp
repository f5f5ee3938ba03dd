// Copies of ranks' files on other hosts, over TCP connections of their own: threads send and receive them
// while training goes on.
#pragma once

#include "base/digest.hpp"
#include "checkpoint/block_writer.hpp"
#include "checkpoint/saved_step.hpp"
#include "comm/outcome.hpp"
#include "io/tcp.hpp"

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sluice {

/// Target of the copy of a rank's file.
struct CopyTarget {
  int rank = -1;  ///< rank that the copied file belongs to
  int port = 0;
  std::string token;                   ///< secret by which both ends recognise each other
  std::vector<std::string> addresses;  ///< IPv4 addresses of the host, any of which may lead to it

  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] static CopyTarget from_text(std::string_view text);
};

/// Receives a copy of one file, on a thread. Holds kCopyTakenBytes bytes.
class IncomingCopy {
 public:
  /// Prepares to receive a copy of the file of rank `of`. Error(kIo) if the system gives no port.
  IncomingCopy(int of, int rank, double limit_seconds);

  /// Address that the sending rank connects to.
  [[nodiscard]] const CopyTarget& target() const { return target_; }

  /// Begins to wait for the sender; the copy gets the file's own name in `directory`. The thread keeps `copy`
  /// alive.
  static void start(const std::shared_ptr<IncomingCopy>& copy, const std::filesystem::path& directory);
  /// Ends the thread soon; abandons it if it seems to be stuck in a system call.
  void stop();

  [[nodiscard]] bool has_ended() const;
  /// Waits `seconds` for the end. Error(kIo) if the thread failed.
  void wait(double seconds);
  /// Error(kIo) if what was received is not `file`. Requires that the thread has ended.
  void require(const SavedFile& file) const;

 private:
  void run(const std::filesystem::path& directory);
  [[nodiscard]] TcpStream accept_sender();
  void take(const std::filesystem::path& directory);

  TcpListener listener_;
  CopyTarget target_;
  int rank_;
  std::stop_source stop_;
  TcpLimit limit_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  Outcome outcome_;
  std::vector<Digest> digests_;
};

/// Sends a file on disk in `directory` to the host that receives its copy, block after block, each verified
/// as it is read. Holds one block of kSavedBlockBytes. `on_block` is called after each block. Error(kIo) if
/// the target cannot be reached or accepts nothing for the limit; Error(kBadData) if the disk returns other
/// bytes than were written. `rank` is for fault points alone.
void send_copy(const std::filesystem::path& directory, const SavedFile& file, const CopyTarget& target,
               int rank, const TcpLimit& limit, const std::function<void()>& on_block);

/// Bytes that a rank holds for a copy that it sends, and for each copy that it receives.
inline constexpr std::int64_t kCopySentBytes = kSavedBlockBytes,
                              kCopyTakenBytes = BlockWriter::kStagingBytes + kMiB;

}  // namespace sluice
