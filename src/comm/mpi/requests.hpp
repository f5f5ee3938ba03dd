// MPI messages of one operation.
//
// If a message has another length than its receiver expects, the receiver fails: two ranks have called the
// operation with different lengths, and the data that arrived mean nothing.
#pragma once

#include "base/clock.hpp"
#include "base/trace/recorder.hpp"
#include "comm/wait.hpp"

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Messages in flight, finished when all are. Messages above the limit are cut; both sides must cut alike.
class MpiRequests final : public Pollable {
 public:
  /// `operation` names the operation in error messages.
  MpiRequests(MPI_Comm comm, std::int64_t message_limit_bytes, const Operation& operation)
      : comm_(comm), message_limit_bytes_(message_limit_bytes), operation_(operation) {
    if (trace::is_on()) [[unlikely]]
      begin_ = SteadyClock::now();
  }

  void send(const void* data, std::int64_t bytes, int to, int tag);
  void receive(void* data, std::int64_t bytes, int from, int tag);

  /// Error(kInternal) naming the operation and both lengths when a message is longer or shorter than
  /// expected.
  bool test() override;
  [[nodiscard]] std::string missing() const override;

 private:
  struct Request {
    MPI_Request handle;
    int peer;
    int receives_bytes;  ///< bytes of a receive; -1: the request is a send
  };

  void record();
  void check_length(const Request& request, int code, const MPI_Status& status) const;

  MPI_Comm comm_;
  std::int64_t message_limit_bytes_;
  Operation operation_;
  std::vector<Request> requests_;
  std::size_t finished_ = 0;         ///< number of requests before which all are done
  std::int64_t bytes_ = 0;           ///< bytes of all messages, sent and received
  SteadyClock::time_point begin_{};  ///< begin of the operation, if it is traced and not yet recorded
};

}  // namespace sluice
