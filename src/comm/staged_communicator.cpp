#include "comm/staged_communicator.hpp"

#include "base/range.hpp"
#include "device/copy.hpp"

#include <cstddef>
#include <utility>

namespace sluice {
namespace {

constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));

/// An operation on copies in main memory of data on a device.
class StagedWork final : public Work::Impl {
 public:
  /// Its input has been read already; `out`, unless null, gets the result when the operation has ended.
  StagedWork(Work work, std::unique_ptr<HostBytes> in, std::unique_ptr<HostDraft> out)
      : work_(std::move(work)), in_(std::move(in)), out_(std::move(out)) {}
  bool test() override {
    if (!work_.test()) return false;
    save();
    return true;
  }
  void wait() override {
    work_.wait();
    save();
  }

 private:
  void save() {
    if (out_) out_->save();
    out_.reset();
    in_.reset();
  }

  Work work_;
  std::unique_ptr<HostBytes> in_;
  std::unique_ptr<HostDraft> out_;
};

std::unique_ptr<HostBytes> bytes_of(const void* data, std::int64_t bytes) {
  return std::make_unique<HostBytes>(static_cast<const std::byte*>(data), bytes);
}

std::unique_ptr<HostDraft> draft_of(void* data, std::int64_t bytes) {
  return std::make_unique<HostDraft>(static_cast<std::byte*>(data), bytes);
}

/// Copies this rank's own part, which needs no message.
void copy_own(const void* in, std::int64_t from, void* out, std::int64_t to, std::int64_t bytes) {
  const auto* const source = static_cast<const std::byte*>(in) + from;
  auto* const target = static_cast<std::byte*>(out) + to;
  if (bytes > 0 && source != target) copy_bytes(target, source, bytes);
}

Work staged(Work work, std::unique_ptr<HostBytes> in, std::unique_ptr<HostDraft> out) {
  return Work(std::make_unique<StagedWork>(std::move(work), std::move(in), std::move(out)));
}

}  // namespace

Work StagedCommunicator::send(const void* data, std::int64_t bytes, int to, int tag, StreamHandle) {
  auto in = bytes_of(data, bytes);
  Work work = below_.send(in->data(), bytes, to, tag);
  return staged(std::move(work), std::move(in), nullptr);
}

Work StagedCommunicator::receive(void* data, std::int64_t bytes, int from, int tag, StreamHandle) {
  auto out = draft_of(data, bytes);
  Work work = below_.receive(out->data(), bytes, from, tag);
  return staged(std::move(work), nullptr, std::move(out));
}

Work StagedCommunicator::broadcast(void* data, std::int64_t bytes, int root, StreamHandle) {
  auto out = draft_of(data, bytes);
  if (rank() == root && out->data() != data) copy_bytes(out->data(), data, bytes);
  Work work = below_.broadcast(out->data(), bytes, root);
  return staged(std::move(work), nullptr, std::move(out));
}

Work StagedCommunicator::all_gather(const void* in, void* out, std::span<const std::int64_t> bytes,
                                    StreamHandle) {
  const auto own = static_cast<std::size_t>(rank());
  const std::int64_t begin = sum(bytes.first(own));
  auto sent = bytes_of(in, bytes[own]);
  auto received = draft_of(out, sum(bytes));
  // The rank's own part stays in place if input and output are the same.
  const bool in_place = in == static_cast<std::byte*>(out) + begin;
  if (in_place && received->data() != out) copy_bytes(received->data() + begin, sent->data(), bytes[own]);
  copy_own(in, 0, out, begin, bytes[own]);
  Work work = below_.all_gather(in_place ? received->data() + begin : sent->data(), received->data(), bytes);
  return staged(std::move(work), std::move(sent), std::move(received));
}

Work StagedCommunicator::reduce_scatter_sum(const float* in, float* out, std::span<const std::int64_t> counts,
                                            StreamHandle, DType type) {
  auto sent = bytes_of(in, sum(counts) * kFloatBytes);
  auto received = draft_of(out, counts[static_cast<std::size_t>(rank())] * kFloatBytes);
  Work work = below_.reduce_scatter_sum(reinterpret_cast<const float*>(sent->data()),
                                        reinterpret_cast<float*>(received->data()), counts, nullptr, type);
  return staged(std::move(work), std::move(sent), std::move(received));
}

Work StagedCommunicator::all_to_all(const void* in, std::span<const std::int64_t> send_bytes, void* out,
                                    std::span<const std::int64_t> receive_bytes, StreamHandle) {
  auto sent = bytes_of(in, sum(send_bytes));
  auto received = draft_of(out, sum(receive_bytes));
  const auto own = static_cast<std::size_t>(rank());
  copy_own(in, sum(send_bytes.first(own)), out, sum(receive_bytes.first(own)), send_bytes[own]);
  Work work = below_.all_to_all(sent->data(), send_bytes, received->data(), receive_bytes);
  return staged(std::move(work), std::move(sent), std::move(received));
}

}  // namespace sluice
