// What one NCCL group moves, as the entry of a stream.
#pragma once

#include "channels.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

namespace sluice::stand_in {

/// Sends and receives that go on side by side; between two ranks they are in order.
class Transfers {
 public:
  void send(const void* data, std::size_t bytes, int to);
  void receive(void* data, std::size_t bytes, int from);
  /// Zero bytes of this transfer's own until it runs.
  [[nodiscard]] std::vector<float>& scratch(std::size_t count);
  /// Before anything is sent, and after everything has arrived.
  void before(std::function<void()> step) { before_.push_back(std::move(step)); }
  void after(std::function<void()> step) { after_.push_back(std::move(step)); }

  /// Returns once all is done, or once `is_aborted`.
  void run(Channels& channels, int rank, const std::atomic<bool>& is_aborted);

 private:
  struct Part {
    std::byte* data;
    std::size_t bytes;
    int peer;
    std::size_t done = 0;
  };
  /// Of each peer the first that is not done; true if bytes moved.
  template <class Move>
  static bool advance(std::vector<Part>& parts, Move move);
  [[nodiscard]] bool is_done() const;

  std::vector<Part> sends_, receives_;
  std::vector<std::vector<float>*> scratch_;
  std::vector<std::function<void()>> before_, after_;

 public:
  Transfers() = default;
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
};

}  // namespace sluice::stand_in
