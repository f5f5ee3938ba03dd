#include "comm/nccl/nccl_communicator.hpp"

#include "base/error.hpp"
#include "base/range.hpp"
#include "comm/nccl/nccl_handle.hpp"
#include "comm/position.hpp"
#include "comm/ranks_text.hpp"
#include "comm/run_together.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using Bytes = std::span<const std::int64_t>;

cudaStream_t to_cuda(StreamHandle stream) { return static_cast<cudaStream_t>(stream); }

/// Identity of the current device, unique among all machines.
std::string device_identity() {
  int device = 0;
  cudaDeviceProp properties{};
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return {properties.uuid.bytes, sizeof properties.uuid.bytes};
}

/// Collective over `bootstrap`. Refuses ranks that share a device; throws alike on every rank.
void refuse_shared_devices(Communicator& bootstrap) {
  std::string identity;
  run_together(bootstrap, [&] { identity = device_identity(); });
  std::map<std::string, std::vector<int>> ranks_of;
  const std::vector<std::string> identities = bootstrap.all_gather_text(identity);
  for (std::size_t rank = 0; rank < identities.size(); ++rank)
    ranks_of[identities[rank]].push_back(static_cast<int>(rank));
  for (const auto& [shared, ranks] : ranks_of) {
    if (ranks.size() > 1)
      fail({ExitCode::kTooLittle, "device.unusable"},
           "{} use the same CUDA device, which NCCL does not allow: start at most one rank per device",
           ranks_text(ranks));
  }
}

/// A CUDA event: a point in a stream.
class Event {
 public:
  explicit Event(cudaStream_t stream) {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    if (const cudaError_t status = cudaEventRecord(event_, stream); status != cudaSuccess) {
      cudaEventDestroy(event_);
      check_cuda(status, "cudaEventRecord");
    }
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event& operator=(Event&&) = delete;

  [[nodiscard]] bool is_passed() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status != cudaErrorNotReady) check_cuda(status, "cudaEventQuery");
    return status == cudaSuccess;
  }
  void hold(StreamHandle stream) const {
    check_cuda(cudaStreamWaitEvent(to_cuda(stream), event_, 0), "cudaStreamWaitEvent");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Operation that is finished when the device has passed the point at which it was made; this rank's own part
/// is there once it has passed `own`.
class NcclWork final : public Work::Impl, public Pollable {
 public:
  NcclWork(std::shared_ptr<NcclHandle> handle, WaitLimit limit, const Operation& operation, Event own,
           cudaStream_t stream)
      : handle_(std::move(handle)),
        limit_(std::move(limit)),
        operation_(operation),
        own_(std::move(own)),
        all_(stream) {}

  bool test() override {
    if (all_.is_passed()) return true;
    // Throws errors that NCCL has found since the last call.
    [[maybe_unused]] const bool enqueued = handle_->is_enqueued();
    return false;
  }
  void wait() override { handle_->wait(*this, limit_, operation_); }
  bool make_stream_wait(StreamHandle stream) override {
    all_.hold(stream);
    return false;
  }
  void make_stream_wait_for_own_part(StreamHandle stream) override { own_.hold(stream); }
  [[nodiscard]] std::string missing() const override { return "the device"; }

 private:
  std::shared_ptr<NcclHandle> handle_;
  WaitLimit limit_;
  Operation operation_;
  Event own_, all_;
};

/// Communicator over NCCL; deadlines come from its bootstrap.
class NcclCommunicator final : public Communicator {
 public:
  explicit NcclCommunicator(Communicator& bootstrap) : bootstrap_(bootstrap) {
    refuse_shared_devices(bootstrap_);
    handle_ = std::make_shared<NcclHandle>(bootstrap_, bootstrap_.limit());
  }
  /// Owns its bootstrap.
  explicit NcclCommunicator(std::unique_ptr<Communicator> bootstrap) : NcclCommunicator(*bootstrap) {
    own_bootstrap_ = std::move(bootstrap);
  }

  int rank() const override { return bootstrap_.rank(); }
  int size() const override { return bootstrap_.size(); }
  Traffic traffic() const override { return traffic_ + bootstrap_.traffic(); }
  void advance() override {
    bootstrap_.advance();
    // Throws errors that NCCL has found since the last call.
    [[maybe_unused]] const bool enqueued = handle_->is_enqueued();
  }
  void set_deadline(std::string_view section, double limit_seconds) override {
    bootstrap_.set_deadline(section, limit_seconds);
  }
  const WaitLimit& limit() const override { return bootstrap_.limit(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<NcclCommunicator>(bootstrap_.split(color, key));
  }
  std::unique_ptr<Communicator> duplicate_for_overlap() override {
    return size() == 1 ? nullptr : split(0, rank());
  }
  Communicator& host() override { return bootstrap_.host(); }

  void barrier() override { bootstrap_.barrier(); }
  void all_reduce_sum(std::span<double> values, StreamHandle) override { bootstrap_.all_reduce_sum(values); }
  void all_reduce_sum(std::span<std::int64_t> values, StreamHandle) override {
    bootstrap_.all_reduce_sum(values);
  }
  void all_reduce_max(std::span<std::int64_t> values, StreamHandle) override {
    bootstrap_.all_reduce_max(values);
  }
  std::vector<std::string> all_gather_text(std::string_view text) override {
    return bootstrap_.all_gather_text(text);
  }
  std::string broadcast_text(std::string_view text, int root) override {
    return bootstrap_.broadcast_text(text, root);
  }

  Work send(const void* data, std::int64_t bytes, int to, int, StreamHandle stream) override {
    return group("send", stream, [&] { send_part(data, bytes, to, stream); });
  }
  Work receive(void* data, std::int64_t bytes, int from, int, StreamHandle stream) override {
    return group("receive", stream, [&] { receive_part(data, bytes, from, stream); });
  }
  Work broadcast(void* data, std::int64_t bytes, int root, StreamHandle stream) override {
    (rank() == root ? traffic_.sent_bytes : traffic_.received_bytes) +=
        bytes * (rank() == root ? size() - 1 : 1);
    return group("broadcast", stream, [&] {
      check_nccl(ncclBroadcast(data, data, count_of(bytes), ncclInt8, root, handle_->get(), to_cuda(stream)),
                 "ncclBroadcast");
    });
  }
  Work all_gather(const void* in, void* out, Bytes bytes, StreamHandle stream) override;
  Work all_to_all(const void* in, Bytes send_bytes, void* out, Bytes receive_bytes,
                  StreamHandle stream) override;
  Work reduce_scatter_sum(const float* in, float* out, Bytes counts, StreamHandle stream,
                          DType sent) override;

 private:
  static std::size_t count_of(std::int64_t count) { return static_cast<std::size_t>(count); }

  /// Runs `calls` as one NCCL group behind earlier work of the stream, including this rank's own part; hands
  /// it to the device, and marks its end on the stream.
  template <class Calls>
  Work group(const char* name, StreamHandle stream, Calls calls) {
    const Operation operation{name, ++count_, rank()};
    position::begin(name, operation.sequence);
    Event own(to_cuda(stream));
    handle_->launch(calls, limit(), operation);
    return Work(std::make_unique<NcclWork>(handle_, limit(), operation, std::move(own), to_cuda(stream)));
  }
  void send_part(const void* data, std::int64_t bytes, int to, StreamHandle stream) {
    if (bytes == 0) return;
    traffic_.sent_bytes += bytes;
    check_nccl(ncclSend(data, count_of(bytes), ncclInt8, to, handle_->get(), to_cuda(stream)), "ncclSend");
  }
  void receive_part(void* data, std::int64_t bytes, int from, StreamHandle stream) {
    if (bytes == 0) return;
    traffic_.received_bytes += bytes;
    check_nccl(ncclRecv(data, count_of(bytes), ncclInt8, from, handle_->get(), to_cuda(stream)), "ncclRecv");
  }
  static void copy_own(const std::byte* from, std::byte* to, std::int64_t bytes, StreamHandle stream) {
    if (bytes > 0 && from != to)
      check_cuda(cudaMemcpyAsync(to, from, count_of(bytes), cudaMemcpyDeviceToDevice, to_cuda(stream)),
                 "cudaMemcpyAsync");
  }

  Communicator& bootstrap_;
  std::unique_ptr<Communicator> own_bootstrap_;
  std::shared_ptr<NcclHandle> handle_;
  std::int64_t count_ = 0;
  Traffic traffic_;
};

bool all_even(Bytes parts) {
  return std::adjacent_find(parts.begin(), parts.end(), std::not_equal_to<>()) == parts.end();
}

Work NcclCommunicator::all_gather(const void* in, void* out, Bytes bytes, StreamHandle stream) {
  const auto own_rank = static_cast<std::size_t>(rank());
  const std::int64_t own_bytes = bytes[own_rank];
  std::byte* const own = static_cast<std::byte*>(out) + sum(bytes.first(own_rank));
  copy_own(static_cast<const std::byte*>(in), own, own_bytes, stream);
  if (all_even(bytes)) {
    traffic_.sent_bytes += own_bytes * (size() - 1);
    traffic_.received_bytes += own_bytes * (size() - 1);
    return group("all_gather", stream, [&] {
      check_nccl(ncclAllGather(own, out, count_of(own_bytes), ncclInt8, handle_->get(), to_cuda(stream)),
                 "ncclAllGather");
    });
  }
  return group("all_gather", stream, [&] {
    auto* place = static_cast<std::byte*>(out);
    for (int peer = 0; peer < size(); ++peer) {
      const std::int64_t part = bytes[static_cast<std::size_t>(peer)];
      if (peer != rank()) {
        receive_part(place, part, peer, stream);
        send_part(own, own_bytes, peer, stream);
      }
      place += part;
    }
  });
}

Work NcclCommunicator::all_to_all(const void* in, Bytes send_bytes, void* out, Bytes receive_bytes,
                                  StreamHandle stream) {
  const auto own = static_cast<std::size_t>(rank());
  copy_own(static_cast<const std::byte*>(in) + sum(send_bytes.first(own)),
           static_cast<std::byte*>(out) + sum(receive_bytes.first(own)), send_bytes[own], stream);
  return group("all_to_all", stream, [&] {
    const auto* source = static_cast<const std::byte*>(in);
    auto* target = static_cast<std::byte*>(out);
    for (int peer = 0; peer < size(); ++peer) {
      const std::int64_t sent = send_bytes[static_cast<std::size_t>(peer)];
      const std::int64_t received = receive_bytes[static_cast<std::size_t>(peer)];
      if (peer != rank()) {
        send_part(source, sent, peer, stream);
        receive_part(target, received, peer, stream);
      }
      source += sent;
      target += received;
    }
  });
}

Work NcclCommunicator::reduce_scatter_sum(const float* in, float* out, Bytes counts, StreamHandle stream,
                                          DType sent) {
  SLUICE_ASSERT(sent == DType::kFloat32, "gradients on GPUs cannot be sent in {}", name_of(sent));
  const auto own = static_cast<std::size_t>(rank());
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank())
      traffic_.sent_bytes += counts[static_cast<std::size_t>(peer)] * std::int64_t{sizeof(float)};
  }
  traffic_.received_bytes += counts[own] * (size() - 1) * std::int64_t{sizeof(float)};
  return group("reduce_scatter_sum", stream, [&] {
    if (all_even(counts)) {
      check_nccl(ncclReduceScatter(in, out, count_of(counts[own]), ncclFloat32, ncclSum, handle_->get(),
                                   to_cuda(stream)),
                 "ncclReduceScatter");
      return;
    }
    const float* part = in;
    for (int root = 0; root < size(); ++root) {
      const std::int64_t count = counts[static_cast<std::size_t>(root)];
      if (count > 0)
        check_nccl(ncclReduce(part, out, count_of(count), ncclFloat32, ncclSum, root, handle_->get(),
                              to_cuda(stream)),
                   "ncclReduce");
      part += count;
    }
  });
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& bootstrap) {
  return std::make_unique<NcclCommunicator>(bootstrap);
}

bool has_nccl() { return true; }

std::string nccl_version_text() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion");
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace sluice
