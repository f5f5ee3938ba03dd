#include "other_device/stream.hpp"

#include <cstdlib>
#include <deque>
#include <mutex>
#include <string_view>
#include <utility>

namespace sluice::other_device {
namespace {

bool is_early() {
  const char* const text = std::getenv("OTHER_DEVICE_STREAM");
  return text != nullptr && std::string_view(text) == "early";
}

/// Threads of a process share it.
struct Stream {
  std::recursive_mutex mutex;
  std::deque<std::function<void()>> works;
  bool early = is_early();
};

Stream& stream() {
  static auto* const only = new Stream;
  return *only;
}

}  // namespace

void queue(std::function<void()> work) {
  const std::lock_guard lock(stream().mutex);
  if (stream().early)
    work();
  else
    stream().works.push_back(std::move(work));
}

void finish() {
  const std::lock_guard lock(stream().mutex);
  while (!stream().works.empty()) {
    const auto work = std::exchange(stream().works.front(), {});
    stream().works.pop_front();
    work();
  }
}

void run_at_once(bool early) {
  const std::lock_guard lock(stream().mutex);
  finish();
  stream().early = early;
}

}  // namespace sluice::other_device
