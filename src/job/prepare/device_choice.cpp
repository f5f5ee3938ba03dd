#include "job/prepare/device_choice.hpp"

#include "base/byte_stream.hpp"
#include "base/error.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "comm/ranks_text.hpp"
#include "comm/run_together.hpp"
#include "comm/staged_communicator.hpp"
#include "comm/wait.hpp"
#include "device/stream.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>

namespace sluice {
namespace {

std::string to_bytes(const DeviceClaim& claim) {
  ByteWriter out;
  for (const std::int64_t value : {std::int64_t{claim.visible}, std::int64_t{claim.index},
                                   claim.gpu.memory_bytes, std::int64_t{claim.gpu.is_integrated}})
    out.number(value);
  for (const std::string& text : {claim.gpu.name, claim.gpu.identity, claim.gpu.capability, claim.lack})
    out.text(text);
  return out.take();
}

DeviceClaim from_bytes(const std::string& bytes) {
  ByteReader in(bytes);
  DeviceClaim claim;
  claim.visible = static_cast<int>(in.number());
  claim.index = static_cast<int>(in.number());
  claim.gpu.memory_bytes = in.number();
  claim.gpu.is_integrated = in.number() != 0;
  claim.gpu.name = in.text();
  claim.gpu.identity = in.text();
  claim.gpu.capability = in.text();
  claim.lack = in.text();
  return claim;
}

/// Ranks grouped by what `key` returns for their claims.
template <class Key>
std::map<std::string, std::vector<int>> ranks_by(std::span<const DeviceClaim> claims, Key key) {
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < claims.size(); ++rank)
    ranks[key(claims[rank])].push_back(static_cast<int>(rank));
  return ranks;
}

/// Text of groups of ranks: "no driver (ranks 0, 1), no device (rank 2)".
std::string text_of(const std::map<std::string, std::vector<int>>& ranks) {
  std::string text;
  for (const auto& [what, which] : ranks) {
    if (!text.empty()) text += ", ";
    text += ranks.size() == 1 ? what : fmt::format("{} ({})", what, ranks_text(which));
  }
  return text;
}

bool sees_none(const DeviceClaim& claim) { return claim.visible == 0; }
std::string lack_of(const DeviceClaim& claim) { return claim.lack; }
std::string kind_of(const DeviceClaim& claim) {
  return fmt::format("{} (compute capability {})", claim.gpu.name, claim.gpu.capability);
}

void refuse_mix(std::span<const DeviceClaim> claims) {
  std::vector<int> without, with;
  for (std::size_t rank = 0; rank < claims.size(); ++rank)
    (sees_none(claims[rank]) ? without : with).push_back(static_cast<int>(rank));
  if (without.empty()) return;
  std::map<std::string, std::vector<int>> reasons;
  for (const int rank : without) reasons[claims[static_cast<std::size_t>(rank)].lack].push_back(rank);
  fail({ExitCode::kTooLittle, "device.unusable"},
       "{} can use a GPU, but {} cannot: {}. All ranks compute on GPUs or all on the CPU: start ranks only "
       "where there are GPUs, or set device.kind = \"cpu\"",
       ranks_text(with), ranks_text(without), text_of(reasons));
}

void refuse_more_ranks_than_gpus(std::span<const DeviceClaim> claims, std::span<const int> nodes) {
  for (std::size_t rank = 0; rank < claims.size(); ++rank) {
    if (claims[rank].index >= 0) continue;
    fail(
        {ExitCode::kTooLittle, "device.unusable"},
        "{} ranks run on the machine of rank {}, but they see {} GPUs there: start at most one rank for each "
        "GPU, or set device.kind = \"cpu\"",
        std::ranges::count(nodes, nodes[rank]), rank, claims[rank].visible);
  }
  for (const auto& [ignored, ranks] :
       ranks_by(claims, [](const DeviceClaim& claim) { return claim.gpu.identity; })) {
    if (ranks.size() > 1)
      fail({ExitCode::kTooLittle, "device.unusable"},
           "{} see the same GPU ({}) and no other: start at most one rank for each GPU, let each see its own "
           "(srun --gpus-per-task=1, CUDA_VISIBLE_DEVICES) or all see all, or set device.kind = \"cpu\"",
           ranks_text(ranks), claims[static_cast<std::size_t>(ranks.front())].gpu.name);
  }
}

void refuse_different_kinds(std::span<const DeviceClaim> claims) {
  const auto kinds = ranks_by(claims, kind_of);
  if (kinds.size() > 1)
    fail({ExitCode::kTooLittle, "device.unusable"},
         "the ranks' GPUs are of different kinds: {}. Shards and limits are equal for all ranks, so use GPUs "
         "of one kind (CUDA_VISIBLE_DEVICES chooses), or set device.kind = \"cpu\"",
         text_of(kinds));
}

/// Number of ranks before this one on its node.
int number_on_node(std::span<const int> nodes, int rank) {
  const auto own = nodes.begin() + rank;
  return static_cast<int>(std::count(nodes.begin(), own, *own));
}

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

DeviceClaim claim_device(const Gpus& gpus, int number) {
  DeviceClaim claim;
  claim.visible = static_cast<int>(gpus.list.size());
  claim.lack = gpus.lack;
  if (claim.visible == 1) number = 0;
  if (number >= claim.visible) return claim;
  claim.index = number;
  claim.gpu = gpus.list[static_cast<std::size_t>(number)];
  return claim;
}

DeviceChoice choose_devices(DeviceKind wanted, std::span<const DeviceClaim> claims,
                            std::span<const int> nodes) {
  if (wanted == DeviceKind::kCpu) return {};
  if (std::ranges::all_of(claims, sees_none)) {
    const std::string lack = text_of(ranks_by(claims, lack_of));
    if (wanted == DeviceKind::kAuto) return {DeviceKind::kCpu, {}, lack};
    fail({ExitCode::kTooLittle, "device.unusable"}, "device.kind is \"cuda\", but no GPU can be used: {}",
         lack);
  }
  refuse_mix(claims);
  refuse_more_ranks_than_gpus(claims, nodes);
  refuse_different_kinds(claims);
  DeviceChoice choice{DeviceKind::kCuda, {}, ""};
  for (const DeviceClaim& claim : claims) choice.gpus.push_back(claim.gpu);
  return choice;
}

bool wants_gpus(const JobConfig& config) {
  return config.device.kind == DeviceKind::kCuda && config.job.kind != JobKind::kExport;
}

void require_device_in_build(const DeviceSettings& settings) {
  if (settings.kind == DeviceKind::kCuda && !has_cuda())
    fail({ExitCode::kBadConfig, "device.not_built"},
         "device.kind is \"cuda\", but this build has no CUDA: configure it with -DSLUICE_CUDA=ON "
         "-DSLUICE_NCCL=ON");
}

std::vector<DeviceClaim> exchange_claims(Communicator& comm, std::span<const int> nodes) {
  const DeviceClaim own = claim_device(list_gpus(), number_on_node(nodes, comm.rank()));
  std::vector<DeviceClaim> claims;
  for (const std::string& bytes : comm.all_gather_text(to_bytes(own))) claims.push_back(from_bytes(bytes));
  return claims;
}

void use_claimed_gpu(Communicator& comm, const DeviceClaim& claim) {
  run_together(comm, [&] { use_gpu(claim.index); });
}

std::unique_ptr<Communicator> connect_gpus(Communicator& comm) {
  if (!has_nccl()) return std::make_unique<StagedCommunicator>(comm);
  std::unique_ptr<Communicator> gpus = make_nccl_communicator(comm);
  std::vector<std::int64_t> expected(static_cast<std::size_t>(comm.size()));
  std::iota(expected.begin(), expected.end(), 0);
  SLUICE_ASSERT(numbers_over_links(*gpus) == expected,
                "a message between the GPUs arrived at rank {} with other bytes than were sent", comm.rank());
  return gpus;
}

std::string device_text(const DeviceChoice& choice) {
  if (choice.kind == DeviceKind::kCuda && choice.gpus.size() == 1) return choice.gpus.front().name;
  if (choice.kind == DeviceKind::kCuda)
    return fmt::format("{} of {}, one a rank", choice.gpus.size(), choice.gpus.front().name);
  return choice.lack.empty() ? "CPU" : fmt::format("CPU, as no GPU can be used: {}", choice.lack);
}

}  // namespace sluice
