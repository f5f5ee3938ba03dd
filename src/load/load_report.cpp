#include "load/load_report.hpp"

#include <algorithm>
#include <type_traits>

namespace sluice {

LoadReport gather_report(Communicator& comm, const RankLoad& mine) {
  static_assert(std::is_trivially_copyable_v<RankLoad>);
  LoadReport report;
  report.ranks.resize(static_cast<std::size_t>(comm.size()));
  const std::vector<std::int64_t> bytes(report.ranks.size(), sizeof(RankLoad));
  comm.all_gather(&mine, report.ranks.data(), bytes).wait();
  return report;
}

void GrowthSampler::tick() {
  constexpr double kInterval = 0.1;
  if (since_last_.seconds() >= kInterval) sample();
}

void GrowthSampler::sample() {
  peak_ = std::max(peak_, sample_memory().growth_over(baseline_));
  since_last_.restart();
}

}  // namespace sluice
