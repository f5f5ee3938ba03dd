// The communicator over MPI, for host memory.
#pragma once

#include "base/bytes.hpp"
#include "comm/background.hpp"
#include "comm/communicator.hpp"
#include "comm/failure/watchdog.hpp"
#include "comm/mpi/requests.hpp"
#include "comm/wait.hpp"

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Communicator over MPI. Every operation consists of non-blocking messages that are polled under the
/// deadline. Collectives carry their kind and number in their tags: ranks that call different ones wait, and
/// say what they wait for, instead of mixing up their data.
class MpiCommunicator final : public Communicator {
 public:
  /// Default for the longest single message, in bytes; MPI counts in int.
  static constexpr std::int64_t kMessageLimitBytes = kGiB;

  /// Collective over `parent`, whose ranks and order are used; `parent` is not kept. Waits on the
  /// communicator advance the operations of `background`, and the other way round.
  MpiCommunicator(MPI_Comm parent, std::shared_ptr<Watchdog> watchdog, WaitLimit limit,
                  std::int64_t message_limit_bytes,
                  std::shared_ptr<Background> background = std::make_shared<Background>());
  /// Communicator that was split from `whole`, with the deadline of `whole` until it gets its own.
  MpiCommunicator(MPI_Comm parent, const MpiCommunicator& whole);
  ~MpiCommunicator() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] Traffic traffic() const override { return traffic_; }
  void set_deadline(std::string_view section, double limit_seconds) override;
  [[nodiscard]] const WaitLimit& limit() const override { return *limit_; }
  void advance() override;
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key) override;
  void barrier() override;
  [[nodiscard]] Work send(const void* data, std::int64_t bytes, int to, int tag,
                          StreamHandle stream) override;
  [[nodiscard]] Work receive(void* data, std::int64_t bytes, int from, int tag, StreamHandle stream) override;
  [[nodiscard]] Work broadcast(void* data, std::int64_t bytes, int root, StreamHandle stream) override;
  [[nodiscard]] Work all_gather(const void* in, void* out, std::span<const std::int64_t> bytes,
                                StreamHandle stream) override;
  [[nodiscard]] Work reduce_scatter_sum(const float* in, float* out, std::span<const std::int64_t> counts,
                                        StreamHandle stream, DType sent) override;
  void all_reduce_sum(std::span<double> values, StreamHandle stream) override;
  void all_reduce_sum(std::span<std::int64_t> values, StreamHandle stream) override;
  void all_reduce_max(std::span<std::int64_t> values, StreamHandle stream) override;
  [[nodiscard]] Work all_to_all(const void* in, std::span<const std::int64_t> send_bytes, void* out,
                                std::span<const std::int64_t> receive_bytes, StreamHandle stream) override;
  [[nodiscard]] std::vector<std::string> all_gather_text(std::string_view text) override;
  [[nodiscard]] std::string broadcast_text(std::string_view text, int root) override;

 private:
  /// Collective over `parent`.
  void duplicate(MPI_Comm parent);

  /// Kinds of collectives; each number of a collective uses kKinds tags.
  enum class Kind : int {
    kBarrier,
    kBroadcast,
    kAllGather,
    kAllToAll,
    kReduceScatter,
    kSum,
    kIntegerSum,
    kIntegerMax
  };
  static constexpr int kKinds = 8;

  struct Collective {
    Operation operation;
    int tag;
  };
  /// Counts a collective of this kind, and returns its name and tag.
  [[nodiscard]] Collective begin(Kind kind);
  /// Counts a send or receive, and returns its name and number.
  [[nodiscard]] Operation begin_message(const char* name);

  [[nodiscard]] MpiRequests requests_of(const Collective& collective) const {
    return {collectives_, message_limit_bytes_, collective.operation};
  }
  void send_counted(MpiRequests& requests, const void* data, std::int64_t bytes, int to, int tag);
  void receive_counted(MpiRequests& requests, void* data, std::int64_t bytes, int from, int tag);
  [[nodiscard]] Work work(MpiRequests requests, const Operation& operation) const;

  template <class T, class Sent, class Combine>
  class ReduceScatter;

  /// all_gather() as a part of a collective that has begun.
  [[nodiscard]] Work gather(const Collective& collective, const void* in, void* out,
                            std::span<const std::int64_t> bytes);
  /// Collective over this communicator. Combines in rank order. Fewer numbers than ranks go to every rank; of others
  /// each rank combines a part and sends it to all, which is twice the numbers for any number of ranks.
  template <class T, class Combine>
  void all_reduce(Kind kind, std::span<T> values, Combine combine);

  MPI_Comm messages_ = MPI_COMM_NULL;     ///< communicator of send and receive, whose tags are the caller's
  MPI_Comm collectives_ = MPI_COMM_NULL;  ///< communicator of collectives, whose tags are numbered
  std::shared_ptr<Watchdog> watchdog_;
  /// Limit of the time of waits, shared with the communicator that this one was split from until
  /// set_deadline() is called.
  std::shared_ptr<WaitLimit> limit_;
  bool is_part_ = false;
  std::int64_t message_limit_bytes_;
  std::shared_ptr<Background> background_;
  int rank_ = 0;
  int size_ = 1;
  int numbered_tags_ = 1;  ///< number of collectives after which tags repeat
  std::int64_t collective_count_ = 0;
  std::int64_t message_count_ = 0;
  Traffic traffic_;
};

}  // namespace sluice
