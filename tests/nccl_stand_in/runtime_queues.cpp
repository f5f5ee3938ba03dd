// The stand-in for CUDA's runtime: memory, which is the host's, and streams, which are threads. What the
// queue of a stream orders, and nothing else, is ordered.
//
//   SLUICE_STAND_IN_DELAY_US  each entry of a stream starts later by up to so many microseconds
#include "runtime.hpp"

#include <cuda_runtime_api.h>

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

namespace {

/// At multiples of 256 bytes, as CUDA's is.
void* allocate_on_heap(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

sluice::stand_in::DeviceMemory device_memory{
    .allocate = allocate_on_heap,
    .release = std::free,
    .owns = nullptr,  // what was allocated here
    .readable = [](const void* data) { return const_cast<void*>(data); },
};

std::mutex memory_mutex;
std::map<void*, std::size_t>& allocations() {
  static auto* const all = new std::map<void*, std::size_t>;
  return *all;
}

void wait_a_while() {
  static const char* const text = std::getenv("SLUICE_STAND_IN_DELAY_US");
  static const int most = text == nullptr ? 0 : static_cast<int>(std::strtol(text, nullptr, 10));
  if (most <= 0) return;
  thread_local std::minstd_rand random(static_cast<unsigned>(getpid()));
  std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution<>(0, most)(random)));
}

}  // namespace

void sluice::stand_in::use_memory(const DeviceMemory& memory) { device_memory = memory; }

void* sluice::stand_in::readable(const void* data) { return device_memory.readable(data); }

using sluice::stand_in::readable;

/// Its thread is never joined where an entry may hang.
struct CUstream_st {
  CUstream_st() : thread([this] { run(); }) {}

  void push(std::function<void()> entry) {
    {
      const std::lock_guard lock(mutex);
      entries.push_back(std::move(entry));
    }
    changed.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return is_closed || !entries.empty(); });
      if (entries.empty()) return;
      const std::function<void()> entry = std::move(entries.front());
      entries.pop_front();
      is_running = true;
      lock.unlock();
      wait_a_while();
      entry();
      lock.lock();
      is_running = false;
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> entries;
  bool is_closed = false, is_running = false;
  std::thread thread;
};

/// Done when its last record is; a stream that waits for it waits for the record there was then.
struct CUevent_st {
  struct Record {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
  };
  std::shared_ptr<Record> last;
};

namespace {

/// Never destroyed: at the end of the process an entry may still hang in it.
CUstream_st& stream_of(cudaStream_t stream) {
  static auto* const standard = new CUstream_st;
  return stream == nullptr ? *standard : *stream;
}

/// Until all that was pushed before has run.
void drain(cudaStream_t stream) {
  CUevent_st event;
  cudaEventRecord(&event, stream);
  std::unique_lock lock(event.last->mutex);
  event.last->changed.wait(lock, [&] { return event.last->is_done; });
}

}  // namespace

extern "C" {
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const std::lock_guard lock(memory_mutex);
  std::size_t taken = 0;
  for (const auto& [ignored, size] : allocations()) taken += size;
  if (bytes > sluice::stand_in::kGpuBytes - taken) return cudaErrorMemoryAllocation;
  *data = device_memory.allocate(bytes);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  allocations()[*data] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  const std::lock_guard lock(memory_mutex);
  if (data == nullptr) return cudaSuccess;
  if (allocations().erase(data) == 0) return cudaErrorInvalidValue;
  device_memory.release(data);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned int) {
  constexpr std::size_t kPage = 4096;
  *data = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  const std::lock_guard lock(memory_mutex);
  *attributes = {};
  if (device_memory.owns != nullptr) {
    if (device_memory.owns(data)) attributes->type = cudaMemoryTypeDevice;
    return cudaSuccess;
  }
  const auto after = allocations().upper_bound(const_cast<void*>(data));
  if (after == allocations().begin()) return cudaSuccess;
  const auto& [begin, bytes] = *std::prev(after);
  if (static_cast<const char*>(data) < static_cast<const char*>(begin) + bytes)
    attributes->type = cudaMemoryTypeDevice;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const std::lock_guard lock(memory_mutex);
  *total_bytes = *free_bytes = sluice::stand_in::kGpuBytes;
  for (const auto& [ignored, size] : allocations()) *free_bytes -= size;
  return cudaSuccess;
}

cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  stream_of(nullptr).push([=] { std::memset(readable(data), value, bytes); });
  drain(nullptr);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  stream_of(stream).push([=] { std::memmove(readable(to), readable(from), bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  *stream = new CUstream_st;
  return cudaSuccess;
}

/// Ends once what is in it has run, as with CUDA without making the caller wait.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(stream->mutex);
    stream->is_closed = true;
  }
  stream->changed.notify_all();
  std::thread([stream] {
    stream->thread.join();
    delete stream;
  }).detach();
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  drain(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  CUstream_st& queue = stream_of(stream);
  const std::lock_guard lock(queue.mutex);
  return queue.is_running || !queue.entries.empty() ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  if (!event->last) return cudaSuccess;
  stream_of(stream).push([record = event->last] {
    std::unique_lock lock(record->mutex);
    record->changed.wait(lock, [&] { return record->is_done; });
  });
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  stream_of(stream).push([=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->last = std::make_shared<CUevent_st::Record>();
  stream_of(stream).push([record = event->last] {
    {
      const std::lock_guard lock(record->mutex);
      record->is_done = true;
    }
    record->changed.notify_all();
  });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!event->last) return cudaSuccess;
  const std::lock_guard lock(event->last->mutex);
  return event->last->is_done ? cudaSuccess : cudaErrorNotReady;
}

}  // extern "C"
