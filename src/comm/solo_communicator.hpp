// A world of one process, without MPI: commands make their plans by the collective code of jobs.
#pragma once

#include "comm/communicator.hpp"
#include "comm/wait.hpp"

namespace sluice {

/// Communicator of one rank, rank 0 of 1. Every operation is finished when its call returns; a message to any other
/// rank, or to itself, is an error of the program.
class SoloCommunicator : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] Traffic traffic() const override { return {}; }
  void set_deadline(std::string_view section, double limit_seconds) override;
  [[nodiscard]] const WaitLimit& limit() const override { return limit_; }
  void advance() override {}
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key) override;
  void barrier() override {}
  [[nodiscard]] Work send(const void* data, std::int64_t bytes, int to, int tag,
                          StreamHandle stream) override;
  [[nodiscard]] Work receive(void* data, std::int64_t bytes, int from, int tag, StreamHandle stream) override;
  [[nodiscard]] Work broadcast(void*, std::int64_t, int, StreamHandle) override { return {}; }
  [[nodiscard]] Work all_gather(const void* in, void* out, std::span<const std::int64_t> bytes,
                                StreamHandle stream) override;
  [[nodiscard]] Work reduce_scatter_sum(const float* in, float* out, std::span<const std::int64_t> counts,
                                        StreamHandle stream, DType sent) override;
  void all_reduce_sum(std::span<double>, StreamHandle) override {}
  void all_reduce_sum(std::span<std::int64_t>, StreamHandle) override {}
  void all_reduce_max(std::span<std::int64_t>, StreamHandle) override {}
  [[nodiscard]] Work all_to_all(const void* in, std::span<const std::int64_t> send_bytes, void* out,
                                std::span<const std::int64_t> receive_bytes, StreamHandle stream) override;
  [[nodiscard]] std::vector<std::string> all_gather_text(std::string_view text) override;
  [[nodiscard]] std::string broadcast_text(std::string_view text, int root) override;

 private:
  WaitLimit limit_{"plan", 0};
};

}  // namespace sluice
