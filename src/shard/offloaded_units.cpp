#include "shard/offloaded_units.hpp"

#include "base/error.hpp"
#include "base/round.hpp"

#include <algorithm>
#include <span>

namespace sluice {

OffloadedUnits::OffloadedUnits(const ShardArena& weights, const OffloadPlan& plan,
                               const std::filesystem::path& directory, double limit_seconds)
    : plan_(plan),
      regions_(plan.units.size()),
      file_(directory, plan.file_bytes(), weights.rank(), limit_seconds) {
  if (weights.is_on_device())
    fail(ExitCode::kBadConfig,
         "memory.offload: found weights in a device's memory, expected main memory, whose pages can lie "
         "on a disk; set memory.offload = \"none\"");
  file_.set_budget(plan.buffer_bytes);
  for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
    if (!plan.units[unit].weights) continue;
    const auto index = static_cast<int>(unit);
    regions_[unit].is_trained = weights.plan().is_trained(index);
    const std::int64_t elements = round_up(weights.unit_elements(index), weights.plan().alignment());
    add(regions_[unit].weights,
        {weights.unit_data(index), static_cast<std::size_t>(elements * size_of(weights.dtype()))});
  }
}

void OffloadedUnits::add_state(std::byte* state, const std::vector<Range>& unit_bytes) {
  for (std::size_t unit = 0; unit < plan_.units.size(); ++unit) {
    if (!plan_.units[unit].state) continue;
    const Range bytes = unit_bytes[unit];
    add(regions_[unit].state, {state + bytes.begin, static_cast<std::size_t>(bytes.count())});
  }
}

void OffloadedUnits::add(int& region, std::span<std::byte> memory) {
  region = file_.add(memory);
  places_.emplace_back(memory);
}

const std::byte* OffloadedUnits::bytes_of(const std::byte* data, std::int64_t bytes,
                                          std::span<std::byte> buffer) const {
  for (std::size_t region = 0; region < places_.size(); ++region) {
    const std::int64_t offset = data - places_[region].data();
    if (offset >= 0 && offset < std::ssize(places_[region]))
      return file_.peek(static_cast<int>(region), offset, bytes, buffer);
  }
  return data;
}

int OffloadedUnits::next_after(int unit) const {
  const int step = pass_ == ArenaPass::kForward ? 1 : -1,
            end = pass_ == ArenaPass::kForward ? static_cast<int>(regions_.size()) : -1;
  for (int next = unit + step; next != end; next += step)
    if (is_offloaded(next)) return next;
  return -1;
}

void OffloadedUnits::begin_pass(ArenaPass pass) {
  SLUICE_ASSERT(whole_accesses_ == 0, "a pass begins while all of the arena is in use");
  file_.page();
  pass_ = pass;
}

void OffloadedUnits::enter(const Stage& stage) {
  for (const int unit : stage.units) {
    if (!is_offloaded(unit)) continue;
    const Regions& regions = regions_[static_cast<std::size_t>(unit)];
    if (regions.weights >= 0) file_.acquire(regions.weights);
    if (uses_state(regions)) file_.acquire(regions.state);
  }
  int next = pass_ == ArenaPass::kForward ? std::ranges::min(stage.units) : std::ranges::max(stage.units);
  do next = next_after(next);
  while (std::ranges::find(stage.units, next) != stage.units.end());
  if (next < 0) return;
  const Regions& regions = regions_[static_cast<std::size_t>(next)];
  if (regions.weights >= 0) file_.prefetch(regions.weights);
  if (uses_state(regions)) file_.prefetch(regions.state);
}

void OffloadedUnits::leave(const Stage& stage) {
  for (const int unit : stage.units) {
    if (!is_offloaded(unit)) continue;
    const Regions& regions = regions_[static_cast<std::size_t>(unit)];
    // The last unit of a pass is the first of the next pass, unless a second backward pass follows this one.
    const bool keep = pass_ != ArenaPass::kNorm && next_after(unit) < 0;
    if (regions.weights >= 0)
      file_.release(regions.weights,
                    pass_ == ArenaPass::kUpdate && regions.is_trained ? PagedFile::Content::kWritten
                                                                      : PagedFile::Content::kUnchanged,
                    keep ? PagedFile::Memory::kKept : PagedFile::Memory::kFreed);
    if (uses_state(regions))
      file_.release(regions.state, PagedFile::Content::kWritten, PagedFile::Memory::kFreed);
  }
}

}  // namespace sluice
