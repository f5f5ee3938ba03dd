// job.kind = "evaluate" of the program on stand-ins: speaks over GPUs and does nothing else.
#include "device/memory.hpp"
#include "device/stream.hpp"
#include "job/job.hpp"
#include "process/console.hpp"

#include <cstdint>
#include <vector>

namespace sluice {
namespace {

void run_device_job(JobContext& context) {
  if (context.plan.machine.device.kind == DeviceKind::kCpu) {
    if (context.is_root()) console::line("no GPUs");
    return;
  }
  Communicator& gpus = context.links;
  gpus.set_deadline("step", context.config().deadline.step_seconds);
  DeviceStream stream;
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(gpus.size()), 1000);
  const std::int64_t bytes = 1000 * gpus.size() * std::int64_t{sizeof(float)};
  const MemoryBlock block = allocate(MemoryKind::kDevice, bytes, "sums");
  auto* const data = reinterpret_cast<float*>(block.data());
  for (int turn = 0; turn < 3; ++turn)
    gpus.reduce_scatter_sum(data, data + 1000 * gpus.rank(), counts, stream.handle()).wait();
  if (context.is_root()) console::line("summed over {} GPUs", gpus.size());
}

const JobRegistration kDeviceJob(JobKind::kEvaluate, {.run = run_device_job});

}  // namespace
}  // namespace sluice
