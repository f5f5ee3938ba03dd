// The stand-in for NCCL: operations. A group is an entry of its CUDA stream; as with NCCL the groups of one
// communicator run one after another, in the order of their calls.
#include "communicator.hpp"
#include "faults.hpp"
#include "runtime.hpp"
#include "transfers.hpp"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

using sluice::stand_in::asks_for;
using sluice::stand_in::hang;
using sluice::stand_in::nap;
using sluice::stand_in::readable;
using sluice::stand_in::Transfers;

namespace {

/// The entry of a stream.
struct Entry {
  ncclComm* comm;
  cudaStream_t stream;
  std::uint64_t ticket = 0;
  enum class Fault { kNone, kHang, kError } fault = Fault::kNone;
  Transfers transfers;
};

void wait_until_aborted(const ncclComm& comm) {
  while (!comm.is_aborted) nap();
}

void run_entry(void* data) {
  const std::unique_ptr<Entry> entry(static_cast<Entry*>(data));
  ncclComm& comm = *entry->comm;
  while (comm.served != entry->ticket && !comm.is_aborted) nap();
  if (entry->fault == Entry::Fault::kError) comm.error = ncclRemoteError;
  if (entry->fault != Entry::Fault::kNone) wait_until_aborted(comm);
  if (!comm.is_aborted) entry->transfers.run(*comm.channels, comm.rank, comm.is_aborted);
  ++comm.served;
  --comm.waiting;
}

thread_local int group_depth = 0;
/// In the order in which communicators were first used in the group.
thread_local std::vector<std::unique_ptr<Entry>> group_entries;

ncclResult_t launch() {
  std::vector<std::unique_ptr<Entry>> entries = std::exchange(group_entries, {});
  for (std::unique_ptr<Entry>& entry : entries) {
    ncclComm& comm = *entry->comm;
    if (asks_for("launch-block", comm.rank)) hang();
    if (asks_for("hang", comm.rank)) entry->fault = Entry::Fault::kHang;
    if (asks_for("error", comm.rank)) entry->fault = Entry::Fault::kError;
    entry->ticket = comm.given++;
    ++comm.waiting;
    const cudaStream_t stream = entry->stream;
    if (cudaLaunchHostFunc(stream, run_entry, entry.release()) != cudaSuccess) return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

/// Adds to the group that is open, or is one of its own.
template <class Add>
ncclResult_t add_call(ncclComm* comm, cudaStream_t stream, Add add) {
  if (comm == nullptr || comm->state() != ncclSuccess) return ncclInvalidArgument;
  Entry* entry = nullptr;
  for (const auto& other : group_entries) {
    if (other->comm == comm && other->stream == stream) entry = other.get();
  }
  if (entry == nullptr) {
    group_entries.push_back(std::make_unique<Entry>());
    entry = group_entries.back().get();
    entry->comm = comm;
    entry->stream = stream;
  }
  add(entry->transfers);
  return group_depth > 0 ? ncclSuccess : launch();
}

std::size_t bytes_of(std::size_t count, ncclDataType_t type) {
  return count * (type == ncclFloat32 ? sizeof(float) : 1);
}

/// out = the sum of `own` and what the other ranks send, as a ring adds: from the rank behind `root` round to
/// root's own. Not rank order, on purpose.
void receive_sum(Transfers& transfers, const ncclComm& comm, const void* own, void* out, std::size_t count,
                 int root) {
  std::vector<const std::vector<float>*> others;
  for (int step = 1; step < comm.size; ++step) {
    std::vector<float>& part = transfers.scratch(count);
    transfers.receive(part.data(), bytes_of(count, ncclFloat32), (root + step) % comm.size);
    others.push_back(&part);
  }
  transfers.after([=] {
    const auto* const mine = static_cast<const float*>(readable(own));
    auto* const sum = static_cast<float*>(readable(out));
    for (std::size_t i = 0; i < count; ++i) {
      float value = others.empty() ? mine[i] : (*others.front())[i];
      for (std::size_t other = 1; other < others.size(); ++other) value += (*others[other])[i];
      sum[i] = others.empty() ? value : value + mine[i];
    }
  });
}

void copy_before(Transfers& transfers, const void* from, void* to, std::size_t bytes) {
  if (from != to && bytes > 0) transfers.before([=] { std::memmove(readable(to), readable(from), bytes); });
}

}  // namespace

extern "C" {

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  return --group_depth == 0 ? launch() : ncclSuccess;
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_call(comm, stream,
                  [&](Transfers& transfers) { transfers.send(data, bytes_of(count, type), peer); });
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_call(comm, stream,
                  [&](Transfers& transfers) { transfers.receive(data, bytes_of(count, type), peer); });
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return add_call(comm, stream, [&](Transfers& transfers) {
    if (comm->rank != root) {
      transfers.receive(out, bytes_of(count, type), root);
      return;
    }
    copy_before(transfers, in, out, bytes_of(count, type));
    for (int peer = 0; peer < comm->size; ++peer) {
      if (peer != root) transfers.send(in, bytes_of(count, type), peer);
    }
  });
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add_call(comm, stream, [&](Transfers& transfers) {
    const std::size_t bytes = bytes_of(count, type);
    for (int peer = 0; peer < comm->size; ++peer) {
      std::byte* const place = static_cast<std::byte*>(out) + static_cast<std::size_t>(peer) * bytes;
      if (peer == comm->rank) {
        copy_before(transfers, in, place, bytes);
      } else {
        transfers.send(in, bytes, peer);
        transfers.receive(place, bytes, peer);
      }
    }
  });
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclFloat32 || op != ncclSum) return ncclInvalidArgument;
  return add_call(comm, stream, [&](Transfers& transfers) {
    const auto part = [&](int rank) {
      return static_cast<const float*>(in) + static_cast<std::size_t>(rank) * count;
    };
    for (int step = 1; step < comm->size; ++step) {
      const int peer = (comm->rank + step) % comm->size;
      transfers.send(part(peer), bytes_of(count, type), peer);
    }
    receive_sum(transfers, *comm, part(comm->rank), out, count, comm->rank);
  });
}

ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclFloat32 || op != ncclSum) return ncclInvalidArgument;
  return add_call(comm, stream, [&](Transfers& transfers) {
    if (comm->rank == root)
      receive_sum(transfers, *comm, in, out, count, root);
    else
      transfers.send(in, bytes_of(count, type), root);
  });
}

}  // extern "C"
