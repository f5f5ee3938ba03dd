#include "job/prepare/connect_gpus.hpp"

#include "base/error.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "comm/staged_communicator.hpp"
#include "comm/wait.hpp"
#include "device/memory.hpp"
#include "device/stream.hpp"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace sluice {
namespace {

/// Exchanges every rank's number between the GPUs; returns the numbers as this rank's GPU got them.
std::vector<std::int64_t> numbers_over_links(Communicator& gpus) {
  const std::vector<std::int64_t> bytes(static_cast<std::size_t>(gpus.size()), sizeof(std::int64_t));
  std::vector<std::int64_t> numbers(bytes.size(), -1);
  const auto all = static_cast<std::int64_t>(numbers.size() * sizeof(std::int64_t));
  const MemoryBlock block = allocate(MemoryKind::kDevice, all, "the first message between GPUs");
  const std::int64_t own = gpus.rank();
  DeviceStream stream;
  std::byte* const place = block.data() + own * std::int64_t{sizeof own};
  stream.copy(place, &own, sizeof own);
  gpus.all_gather(place, block.data(), bytes, stream.handle()).wait();
  stream.copy(numbers.data(), block.data(), all);
  wait_for([&] { return stream.is_idle(); }, [] { return std::string("the device"); }, gpus.limit(),
           {"device_copy", 1, gpus.rank()});
  return numbers;
}

}  // namespace

std::unique_ptr<Communicator> connect_gpus(Communicator& comm) {
  if (!has_nccl()) return std::make_unique<StagedCommunicator>(comm);
  std::unique_ptr<Communicator> gpus = make_nccl_communicator(comm);
  std::vector<std::int64_t> expected(static_cast<std::size_t>(comm.size()));
  std::iota(expected.begin(), expected.end(), 0);
  SLUICE_ASSERT(numbers_over_links(*gpus) == expected,
                "a message between the GPUs arrived at rank {} with other bytes than were sent", comm.rank());
  return gpus;
}

}  // namespace sluice
