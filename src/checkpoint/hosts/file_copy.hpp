// Copies of ranks' files on other hosts, over connections of their own: threads send and take them in while
// training goes on.
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
  std::string token;                   ///< secret by which both ends know each other
  std::vector<std::string> addresses;  ///< IPv4 addresses of the host, any of which may lead there

  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] static CopyTarget from_text(std::string_view text);
};

/// Takes in a copy of one file, on a thread. Holds kCopyTakenBytes.
class IncomingCopy {
 public:
  /// Takes in a copy of the file of rank `of`. Error(kIo) if the system gives no port.
  IncomingCopy(int of, int rank, double limit_seconds);

  /// Address that the sending rank connects to.
  [[nodiscard]] const CopyTarget& target() const { return target_; }

  /// Begins to wait for the sender; the copy gets the file's own name in `directory`. The thread keeps `copy`
  /// alive.
  static void start(const std::shared_ptr<IncomingCopy>& copy, const std::filesystem::path& directory);
  /// Ends the thread soon; leaves it alone where it seems to be stuck in a call of the system.
  void stop();

  [[nodiscard]] bool has_ended() const;
  /// Waits that long for the end. Error(kIo) if the thread failed.
  void wait(double seconds);
  /// Once ended: Error(kIo) if what was taken in is not `file`.
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

/// Sends a file that is on disk in `directory` to where its copy is taken in, block after block, each proven
/// as it is read. Holds one block of kSavedBlockBytes. `on_block` is called after each. Error(kIo) if the
/// target is not to be reached or takes nothing for the limit; Error(kBadData) if the disk gives other bytes
/// than were written. `rank` is for fault points alone.
void send_copy(const std::filesystem::path& directory, const SavedFile& file, const CopyTarget& target,
               int rank, const TcpLimit& limit, const std::function<void()>& on_block);

/// Bytes that a rank holds for a copy that it sends, and for each that it takes in.
inline constexpr std::int64_t kCopySentBytes = kSavedBlockBytes,
                              kCopyTakenBytes = BlockWriter::kStagingBytes + kMiB;

}  // namespace sluice
