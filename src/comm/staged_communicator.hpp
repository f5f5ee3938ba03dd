// A communicator for memory that the one below it cannot reach: a device's passes through main memory.
#pragma once

#include "comm/communicator.hpp"

#include <memory>

namespace sluice {

/// Takes addresses of a device's memory and of main memory alike, and gives the communicator below those of
/// main memory alone. What lies on the device is copied before an operation begins, and results when it is
/// waited for: each takes as much main memory meanwhile. All numbers are those of the communicator below.
class StagedCommunicator final : public Communicator {
 public:
  /// `below` must outlive this.
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
                                        StreamHandle stream) override;
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
