// Communicator: collectives and messages between the ranks of a job, in pointers, counts and element types;
// it knows no tensors.
//
// Every wait has a deadline: when the communicator's limit passes, the wait throws Error(kInternal) naming
// the operation, its sequence number and this rank. Waiting ranks sleep; they do not spin. All calls come
// from the thread that initialised MPI (FUNNELED).
#pragma once

#include "base/dtype.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

struct WaitLimit;

/// Handle of an accelerator stream that orders a call; null on the CPU, and for the compute stream.
using StreamHandle = void*;

/// A started operation. Its buffers must stay valid and untouched until wait() has returned. Move-only;
/// destroying an unfinished Work cancels nothing and waits for nothing: an error is already on its way then.
class Work {
 public:
  class Impl {
   public:
    virtual ~Impl() = default;
    /// True once finished. Never blocks.
    virtual bool test() = 0;
    /// Returns once finished; throws when the deadline passes.
    virtual void wait() = 0;
    /// Makes later work on `stream` wait for this operation. Blocks the host only where there are no streams;
    /// returns whether it did.
    virtual bool make_stream_wait(StreamHandle) {
      wait();
      return true;
    }
    /// Makes later work on `stream` wait for this rank's own part of the result.
    virtual void make_stream_wait_for_own_part(StreamHandle) {}
  };

  Work() = default;  ///< already finished
  explicit Work(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] bool test() { return !impl_ || impl_->test(); }
  void wait() {
    if (impl_) impl_->wait();
    impl_.reset();
  }
  /// Makes later work on `stream` wait for the result, while the host goes on. Errors show in wait(), and in
  /// the communicator's later calls.
  void make_stream_wait(StreamHandle stream) {
    if (impl_ && impl_->make_stream_wait(stream)) impl_.reset();
  }
  /// Makes later work on `stream` wait for this rank's own contribution to the result.
  void make_stream_wait_for_own_part(StreamHandle stream) {
    if (impl_) impl_->make_stream_wait_for_own_part(stream);
  }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Bytes sent and received by this rank through a communicator since it was made, and its messages.
struct Traffic {
  std::int64_t sent_bytes = 0;
  std::int64_t received_bytes = 0;
  std::int64_t sent_messages = 0;  ///< messages by MPI, empty ones too; one that is cut counts once
};

/// The sum of two communicators' traffic.
[[nodiscard]] inline Traffic operator+(const Traffic& a, const Traffic& b) {
  return {a.sent_bytes + b.sent_bytes, a.received_bytes + b.received_bytes,
          a.sent_messages + b.sent_messages};
}

/// A group of ranks and its collectives. Calls marked "Collective" must be made by all of its ranks in the
/// same order.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual Traffic traffic() const = 0;

  /// Limits later waits to `limit_seconds` and names `section` ("load", "step") in their errors.
  virtual void set_deadline(std::string_view section, double limit_seconds) = 0;
  /// The deadline that set_deadline() has set last.
  [[nodiscard]] virtual const WaitLimit& limit() const = 0;

  /// Makes progress with operations that this rank has started, here or on a communicator that this one was
  /// split from or into. Never blocks. For ranks that compute for long between their waits.
  virtual void advance() = 0;

  /// Collective over this communicator. Ranks of equal `color` form a new one, ordered by `key`, then by
  /// rank.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// Collective over this communicator. A communicator over the same ranks whose operations can overlap with
  /// those of this one; null if this one's operations overlap anyway.
  [[nodiscard]] virtual std::unique_ptr<Communicator> duplicate_for_overlap() { return nullptr; }

  /// Communicator over the same ranks for data in main memory, if this one's data lie elsewhere. Lives as
  /// long as this one.
  [[nodiscard]] virtual Communicator& host() { return *this; }

  /// Collective over this communicator.
  virtual void barrier() = 0;

  /// Sends point to point. Messages between two ranks with equal tags arrive in order. Any length; a message
  /// of at least 2 GiB is cut.
  [[nodiscard]] virtual Work send(const void* data, std::int64_t bytes, int to, int tag,
                                  StreamHandle stream = nullptr) = 0;
  [[nodiscard]] virtual Work receive(void* data, std::int64_t bytes, int from, int tag,
                                     StreamHandle stream = nullptr) = 0;

  /// Collective over this communicator. Rank `root`'s bytes reach every rank.
  [[nodiscard]] virtual Work broadcast(void* data, std::int64_t bytes, int root,
                                       StreamHandle stream = nullptr) = 0;

  /// Collective over this communicator. Rank r contributes bytes[r] bytes; `out` receives all, in rank order
  /// without gaps; this rank's own are there at once (for a stream: Work::make_stream_wait_for_own_part()).
  /// `in` may be the rank's own place inside `out`. `bytes` has size() entries, the same on every rank; zeros
  /// are allowed.
  [[nodiscard]] virtual Work all_gather(const void* in, void* out, std::span<const std::int64_t> bytes,
                                        StreamHandle stream = nullptr) = 0;

  /// Collective over this communicator. `in` holds sum(counts) float32 on every rank; rank r receives the
  /// element-wise sum over ranks of its range of counts[r] elements. Sums in float32 in rank order, so the
  /// result does not depend on timing. `out` may be the rank's own place inside `in`. Staging is bounded
  /// (size() x 1 MiB, or some 16 MiB if that is less), whatever the counts. Goes on while this rank waits for
  /// other operations, and in advance(). `sent` is the type in which elements travel: float32, or in main memory
  /// bfloat16, to which every rank's part is then rounded before it is added, the receiving rank's own too; a
  /// single rank rounds nothing.
  [[nodiscard]] virtual Work reduce_scatter_sum(const float* in, float* out,
                                                std::span<const std::int64_t> counts,
                                                StreamHandle stream = nullptr,
                                                DType sent = DType::kFloat32) = 0;

  /// Collective over this communicator. Element-wise over ranks, in rank order; every rank gets the same
  /// bits.
  virtual void all_reduce_sum(std::span<double> values, StreamHandle stream = nullptr) = 0;
  virtual void all_reduce_sum(std::span<std::int64_t> values, StreamHandle stream = nullptr) = 0;
  virtual void all_reduce_max(std::span<std::int64_t> values, StreamHandle stream = nullptr) = 0;

  /// Collective over this communicator. Rank r sends send_bytes[p] bytes to each rank p, taken from `in` in
  /// rank order without gaps, and receives receive_bytes[p] from each p into `out` likewise. The bytes for
  /// the rank itself are copied at once (for a stream: Work::make_stream_wait_for_own_part()).
  [[nodiscard]] virtual Work all_to_all(const void* in, std::span<const std::int64_t> send_bytes, void* out,
                                        std::span<const std::int64_t> receive_bytes,
                                        StreamHandle stream = nullptr) = 0;

  /// Collective over this communicator. Every rank's text, in rank order, on every rank.
  [[nodiscard]] virtual std::vector<std::string> all_gather_text(std::string_view text) = 0;
  /// Collective over this communicator. Rank `root`'s text on every rank.
  [[nodiscard]] virtual std::string broadcast_text(std::string_view text, int root) = 0;

 protected:
  Communicator() = default;
};

}  // namespace sluice
