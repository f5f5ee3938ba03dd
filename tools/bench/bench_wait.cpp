// What waiting costs, what collectives carry, and how many messages the small ones are. Run it under mpirun; rank 0
// prints one line per figure.
//   mpirun --oversubscribe -np 3 bench_wait [all | idle | busy | collectives | small]
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "comm/mpi/mpi_environment.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace sluice;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void work_for(double cpu) {
  const double end = cpu_seconds() + cpu;
  while (cpu_seconds() < end) {
  }
}

/// CPU seconds that the busiest waiting rank uses while rank 0 sleeps for 5 s.
void measure_idle_wait(Communicator& world) {
  world.barrier();
  const double before = cpu_seconds();
  if (world.rank() == 0) std::this_thread::sleep_for(Seconds(5));
  world.barrier();
  std::array<std::int64_t, 1> used{static_cast<std::int64_t>((cpu_seconds() - before) * 1e6)};
  world.all_reduce_max(used);
  if (world.rank() == 0)
    fmt::print("CPU of a rank that waits 5 s: {:.3f} s\n", static_cast<double>(used[0]) * 1e-6);
}

/// Useful CPU over what the cores offer, with 5 ms of work on each rank between barriers.
void measure_busy_share(Communicator& world) {
  constexpr int kRounds = 200;
  constexpr double kWork = 5e-3;
  const double cores = std::min<double>(world.size(), std::thread::hardware_concurrency());
  world.barrier();
  const Stopwatch watch;
  for (int round = 0; round < kRounds; ++round) {
    work_for(kWork);
    world.barrier();
  }
  const double share = kWork * kRounds * world.size() / (watch.seconds() * cores);
  if (world.rank() == 0)
    fmt::print("useful share of {:.0f} cores with 5 ms between barriers: {:.1f} %\n", cores, share * 100);
}

/// Seconds per call of `call`, the best of several.
template <class Call>
double best_seconds(Communicator& world, Call call) {
  double best = 1e9;
  for (int round = 0; round < 7; ++round) {
    world.barrier();
    const Stopwatch watch;
    call();
    world.barrier();
    best = std::min(best, watch.seconds());
  }
  return best;
}

void measure_collectives(Communicator& world, std::int64_t total_bytes) {
  const std::int64_t size = world.size();
  const std::int64_t each = total_bytes / size / 4;
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size), each);
  const std::vector<std::int64_t> bytes(counts.size(), each * 4);
  std::vector<float> all(static_cast<std::size_t>(each * size), 1.0F);
  float* own = all.data() + each * world.rank();
  const double gather = best_seconds(world, [&] { world.all_gather(own, all.data(), bytes).wait(); });
  const double reduce =
      best_seconds(world, [&] { world.reduce_scatter_sum(all.data(), own, counts).wait(); });
  const double cast = best_seconds(world, [&] { world.broadcast(all.data(), each * 4, 0).wait(); });
  if (world.rank() != 0) return;
  const auto rate = [](std::int64_t count, double seconds) {
    return static_cast<double>(count) / seconds * 1e-9;
  };
  fmt::print(
      "{}: all_gather {:.1f} ms ({:.2f} GB/s), reduce_scatter_sum {:.1f} ms ({:.2f} GB/s), broadcast of a "
      "part {:.1f} ms\n",
      format_mib(total_bytes), gather * 1e3, rate(total_bytes, gather), reduce * 1e3,
      rate(total_bytes, reduce), cast * 1e3);
}

/// Messages and bytes of a small collective: of the rank that sends most, and of all ranks; and its seconds.
template <class Call>
void measure_small(Communicator& world, std::string_view name, Call call) {
  const Traffic before = world.traffic();
  call();
  const Traffic after = world.traffic();
  std::array<std::int64_t, 2> sum{after.sent_messages - before.sent_messages,
                                  after.sent_bytes - before.sent_bytes};
  std::array<std::int64_t, 2> most = sum;
  world.all_reduce_max(most);
  world.all_reduce_sum(std::span(sum));
  const double seconds = best_seconds(world, call);
  if (world.rank() == 0)
    fmt::print("| {} | {} | {} | {} | {} | {} | {:.0f} |\n", world.size(), name, most[0], sum[0], most[1],
               sum[1], seconds * 1e6);
}

/// The small collectives of a step and its beginning, each with as much as a step of some 50 layers gives it.
void measure_small_collectives(Communicator& world) {
  constexpr std::size_t kFew = 2, kLoads = 48 * 128;
  std::array<double, kFew> few{};
  std::vector<std::int64_t> loads(kLoads);
  std::vector<std::byte> text(1024);
  const std::vector<std::int64_t> bytes(static_cast<std::size_t>(world.size()), 8);
  std::vector<std::int64_t> all(bytes.size());
  const std::int64_t own = world.rank();
  if (world.rank() == 0)
    fmt::print(
        "| ranks | operation | messages of one rank | of all | bytes of one rank | of all | us |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n");
  measure_small(world, "barrier", [&] { world.barrier(); });
  measure_small(world, "broadcast of 1 kB",
                [&] { world.broadcast(text.data(), std::ssize(text), 0).wait(); });
  measure_small(world, "all_gather of 8 B a rank", [&] { world.all_gather(&own, all.data(), bytes).wait(); });
  measure_small(world, "all_gather_text of 100 B a rank",
                [&] { static_cast<void>(world.all_gather_text(std::string(100, ' '))); });
  measure_small(world, "all_reduce_sum of 2 numbers", [&] { world.all_reduce_sum(std::span<double>(few)); });
  measure_small(world, "all_reduce_sum of 6144 numbers", [&] { world.all_reduce_sum(std::span(loads)); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "all";
  MpiEnvironment mpi(60);
  if (what == "all" || what == "idle") measure_idle_wait(mpi.world());
  if (what == "all" || what == "busy") measure_busy_share(mpi.world());
  if (what == "all" || what == "small") measure_small_collectives(mpi.world());
  if (what == "all" || what == "collectives") {
    for (const std::int64_t bytes : {kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB})
      measure_collectives(mpi.world(), bytes);
  }
}
