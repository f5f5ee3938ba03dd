// The messages of one operation.
#pragma once

#include "comm/wait.hpp"

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Started messages, finished when all are. Messages above the limit are cut; both sides must cut alike.
class MpiRequests final : public Pollable {
 public:
  MpiRequests(MPI_Comm comm, std::int64_t message_limit_bytes)
      : comm_(comm), message_limit_bytes_(message_limit_bytes) {}

  void send(const void* data, std::int64_t bytes, int to, int tag);
  void receive(void* data, std::int64_t bytes, int from, int tag);

  bool test() override;
  [[nodiscard]] std::string missing() const override;

 private:
  struct Request {
    MPI_Request handle;
    int peer;
  };

  MPI_Comm comm_;
  std::int64_t message_limit_bytes_;
  std::vector<Request> requests_;
  std::size_t finished_ = 0;  ///< requests before this one are done
};

}  // namespace sluice
