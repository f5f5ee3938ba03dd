// Memory that the ranks of one communicator share: a channel from each rank to each rank.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::stand_in {

/// Bytes on their way from one rank to another, in order. One thread writes, one reads.
class Channel {
 public:
  /// As much of these bytes as there is room for; how much that was.
  std::size_t write(const std::byte* data, std::size_t bytes);
  std::size_t read(std::byte* data, std::size_t bytes);

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 15;
  std::atomic<std::uint64_t> written_, taken_;
  std::array<std::byte, kBytes> ring_;
};

class Channels {
 public:
  /// Opens the memory of that name, made by whoever comes first. Throws std::runtime_error if the system
  /// refuses.
  Channels(const std::string& name, int size);
  ~Channels();
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  /// Counts this rank among those that have come.
  void arrive() { ++shared_->arrived; }
  [[nodiscard]] bool all_have_come() const { return shared_->arrived == size_; }
  /// Nobody else can open it from here on.
  void unlink() const;

  [[nodiscard]] Channel& between(int from, int to) { return shared_->channels[from * size_ + to]; }

 private:
  struct Shared {
    std::atomic<int> arrived;
    Channel channels[1];  // size * size of them
  };
  std::string name_;
  int size_;
  std::size_t bytes_;
  Shared* shared_;
};

}  // namespace sluice::stand_in
