#include "channels.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace sluice::stand_in {

std::size_t Channel::write(const std::byte* data, std::size_t bytes) {
  const std::uint64_t at = written_.load(std::memory_order_relaxed);
  const std::size_t room = kBytes - static_cast<std::size_t>(at - taken_.load(std::memory_order_acquire));
  const std::size_t count = std::min(bytes, room);
  const auto begin = static_cast<std::size_t>(at % kBytes);
  const std::size_t first = std::min(count, kBytes - begin);
  std::memcpy(ring_.data() + begin, data, first);
  std::memcpy(ring_.data(), data + first, count - first);
  written_.store(at + count, std::memory_order_release);
  return count;
}

std::size_t Channel::read(std::byte* data, std::size_t bytes) {
  const std::uint64_t at = taken_.load(std::memory_order_relaxed);
  const auto there = static_cast<std::size_t>(written_.load(std::memory_order_acquire) - at);
  const std::size_t count = std::min(bytes, there);
  const auto begin = static_cast<std::size_t>(at % kBytes);
  const std::size_t first = std::min(count, kBytes - begin);
  std::memcpy(data, ring_.data() + begin, first);
  std::memcpy(data + first, ring_.data(), count - first);
  taken_.store(at + count, std::memory_order_release);
  return count;
}

Channels::Channels(const std::string& name, int size)
    : name_(name),
      size_(size),
      bytes_(sizeof(Shared) + sizeof(Channel) * static_cast<std::size_t>(size * size)) {
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) throw std::runtime_error("shm_open failed");
  void* memory = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(bytes_)) == 0)
    memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
  shared_ = static_cast<Shared*>(memory);
}

Channels::~Channels() { munmap(shared_, bytes_); }

void Channels::unlink() const { shm_unlink(name_.c_str()); }

}  // namespace sluice::stand_in
