#include "comm/mpi/requests.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"
#include "comm/mpi/check.hpp"
#include "comm/ranks_text.hpp"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

/// Calls start(offset, count) for each message into which `bytes` are cut; an empty message counts as one.
template <class Start>
void for_each_message(std::int64_t bytes, std::int64_t limit_bytes, Start start) {
  std::int64_t offset = 0;
  do {
    const std::int64_t count = std::min(bytes - offset, limit_bytes);
    start(offset, checked_cast<int>(count));
    offset += count;
  } while (offset < bytes);
}

}  // namespace

void MpiRequests::send(const void* data, std::int64_t bytes, int to, int tag) {
  require_mpi_thread("MPI_Isend");
  bytes_ += bytes;
  for_each_message(bytes, message_limit_bytes_, [&](std::int64_t offset, int count) {
    Request& request = requests_.emplace_back(Request{MPI_REQUEST_NULL, to, -1});
    const auto* begin = static_cast<const std::byte*>(data) + offset;
    check_mpi(MPI_Isend(begin, count, MPI_BYTE, to, tag, comm_, &request.handle), "MPI_Isend");
  });
}

void MpiRequests::receive(void* data, std::int64_t bytes, int from, int tag) {
  require_mpi_thread("MPI_Irecv");
  bytes_ += bytes;
  for_each_message(bytes, message_limit_bytes_, [&](std::int64_t offset, int count) {
    Request& request = requests_.emplace_back(Request{MPI_REQUEST_NULL, from, count});
    auto* begin = static_cast<std::byte*>(data) + offset;
    check_mpi(MPI_Irecv(begin, count, MPI_BYTE, from, tag, comm_, &request.handle), "MPI_Irecv");
  });
}

bool MpiRequests::test() {
  for (; finished_ < requests_.size(); ++finished_) {
    int done = 0;
    MPI_Status status;
    Request& request = requests_[finished_];
    const int code = MPI_Test(&request.handle, &done, &status);
    if (code == MPI_SUCCESS && !done) return false;
    check_length(request, code, status);
  }
  if (begin_ != SteadyClock::time_point{}) [[unlikely]]
    record();
  return true;
}

void MpiRequests::record() {
  const SteadyClock::time_point begin = std::exchange(begin_, {});
  if (!requests_.empty())
    trace::add(trace::Kind::kMessage, operation_.name, begin, SteadyClock::now(), operation_.sequence,
               bytes_);
}

void MpiRequests::check_length(const Request& request, int code, const MPI_Status& status) const {
  int kind = MPI_SUCCESS, bytes = 0;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &kind);
  const bool is_longer = request.receives_bytes >= 0 && kind == MPI_ERR_TRUNCATE;
  if (!is_longer) check_mpi(code, "MPI_Test");
  if (!is_longer && request.receives_bytes >= 0)
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  if (is_longer || (request.receives_bytes >= 0 && bytes != request.receives_bytes))
    fail(ExitCode::kInternal,
         "{} #{} on rank {}: a message of rank {} has {} bytes, expected {}: the two ranks call it with "
         "different lengths",
         operation_.name, operation_.sequence, operation_.rank, request.peer,
         is_longer ? "more" : fmt::format("{}", bytes), request.receives_bytes);
}

std::string MpiRequests::missing() const {
  std::vector<int> peers;
  for (std::size_t i = finished_; i < requests_.size(); ++i) {
    int done = 0;
    check_mpi(MPI_Request_get_status(requests_[i].handle, &done, MPI_STATUS_IGNORE),
              "MPI_Request_get_status");
    if (!done) peers.push_back(requests_[i].peer);
  }
  return ranks_text(std::move(peers));
}

}  // namespace sluice
