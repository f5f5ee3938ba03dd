// Communicator that passes data on a device through main memory, for communicators below it that cannot reach
// the device.
#pragma once

#include "comm/communicator.hpp"

#include <memory>

namespace sluice {

/// Accepts addresses in device memory and in main memory, and passes only main memory to the communicator
/// below. Device data are copied before an operation begins, and results after it is waited for; until then
/// each takes the same amount of main memory. Counts and deadlines come from the communicator below.
class StagedCommunicator final : public Communicator {
 public:
  /// `below` must outlive this object.
  explicit StagedCommunicator(Communicator& below) : below_(below) {}
  explicit StagedCommunicator(std::unique_ptr<Communicator> below) : own_(std::move(below)), below_(*own_) {}

  [[nodiscard]] int rank() const override { return below_.rank(); }
  [[nodiscard]] int size() const override { return below_.size(); }
  [[nodiscard]] Traffic traffic() const override { return below_.traffic(); }
  void set_deadline(std::string_view section, double limit_seconds) override {
    below_.set_deadline(section, limit_seconds);
  }
  [[nodiscard]] const WaitLimit& limit() const override { return below_.limit(); }
  void advance() override { below_.advance(); }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<StagedCommunicator>(below_.split(color, key));
  }
  [[nodiscard]] Communicator& host() override { return below_.host(); }
  void barrier() override { below_.barrier(); }
  [[nodiscard]] Work send(const void* data, std::int64_t bytes, int to, int tag,
                          StreamHandle stream) override;
  [[nodiscard]] Work receive(void* data, std::int64_t bytes, int from, int tag, StreamHandle stream) override;
  [[nodiscard]] Work broadcast(void* data, std::int64_t bytes, int root, StreamHandle stream) override;
  [[nodiscard]] Work all_gather(const void* in, void* out, std::span<const std::int64_t> bytes,
                                StreamHandle stream) override;
  [[nodiscard]] Work reduce_scatter_sum(const float* in, float* out, std::span<const std::int64_t> counts,
                                        StreamHandle stream, DType sent) override;
  void all_reduce_sum(std::span<double> values, StreamHandle stream) override {
    below_.all_reduce_sum(values, stream);
  }
  void all_reduce_sum(std::span<std::int64_t> values, StreamHandle stream) override {
    below_.all_reduce_sum(values, stream);
  }
  void all_reduce_max(std::span<std::int64_t> values, StreamHandle stream) override {
    below_.all_reduce_max(values, stream);
  }
  [[nodiscard]] Work all_to_all(const void* in, std::span<const std::int64_t> send_bytes, void* out,
                                std::span<const std::int64_t> receive_bytes, StreamHandle stream) override;
  [[nodiscard]] std::vector<std::string> all_gather_text(std::string_view text) override {
    return below_.all_gather_text(text);
  }
  [[nodiscard]] std::string broadcast_text(std::string_view text, int root) override {
    return below_.broadcast_text(text, root);
  }

 private:
  std::unique_ptr<Communicator> own_;
  Communicator& below_;
};

}  // namespace sluice
