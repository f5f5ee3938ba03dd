#include "shard/finite_check.hpp"

#include "base/byte_stream.hpp"
#include "base/error.hpp"
#include "comm/position.hpp"
#include "device/copy.hpp"
#include "shard/shard_values.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace sluice {
namespace {

/// Mask of the exponent bits, all of which are set in NaN and infinity.
template <class Bits>
constexpr Bits kExponent = sizeof(Bits) == 2 ? Bits{0x7f80} : static_cast<Bits>(0x7f800000U);

template <class Bits>
bool is_bad(Bits bits) {
  return (bits & kExponent<Bits>) == kExponent<Bits>;
}

/// Index of the first number that is NaN or infinite; -1: all are finite. Works in pieces, whose loops
/// compilers vectorise.
template <class Bits>
std::int64_t first_bad(const std::byte* data, std::int64_t count) {
  constexpr std::int64_t kPiece = 4096;
  const auto* const bits = reinterpret_cast<const Bits*>(data);
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t end = std::min(count, begin + kPiece);
    unsigned bad = 0;
    for (std::int64_t i = begin; i < end; ++i) bad |= static_cast<unsigned>(is_bad(bits[i]));
    if (bad != 0) return std::find_if(bits + begin, bits + end, is_bad<Bits>) - bits;
  }
  return -1;
}

/// first_bad() for numbers in any memory, a device's included.
std::int64_t first_bad_of_any(const std::byte* data, std::int64_t count, DType dtype) {
  if (!is_on_device(data)) return first_non_finite(data, count, dtype);
  constexpr std::int64_t kCopied = 1 << 20;
  for (std::int64_t begin = 0; begin < count; begin += kCopied) {
    const std::int64_t piece = std::min(kCopied, count - begin);
    const HostBytes here(data + begin * size_of(dtype), piece * size_of(dtype));
    if (const std::int64_t bad = first_non_finite(here.data(), piece, dtype); bad >= 0) return begin + bad;
  }
  return -1;
}

}  // namespace

std::int64_t first_non_finite(const std::byte* data, std::int64_t count, DType dtype) {
  SLUICE_ASSERT(dtype == DType::kFloat32 || dtype == DType::kBFloat16, "weights of {}", name_of(dtype));
  return dtype == DType::kFloat32 ? first_bad<std::uint32_t>(data, count)
                                  : first_bad<std::uint16_t>(data, count);
}

void fail_for_updated(const std::string& tensor) {
  fail({ExitCode::kNumerics, "train.not_finite"},
       "the last update has made weights that are not finite, first in {}. Likely cause: too high a learning "
       "rate",
       tensor);
}

NonFinite find_non_finite(const ShardPlan& plan, const ParameterManifest& manifest, int unit, Range elements,
                          const std::byte* data, DType dtype, UnitOrder order) {
  // Upper bound of a unit's elements, so that NonFinite::place orders findings by unit first.
  constexpr std::int64_t kMostElements = std::int64_t{1} << 44;
  if (unit == plan.whole_unit()) {
    const std::int64_t bad = first_bad_of_any(data, elements.count(), dtype);
    if (bad < 0) return {};
    const std::vector<BufferPlace>& places = plan.layouts().buffers;
    const auto behind = std::ranges::upper_bound(places, elements.begin + bad, {}, &BufferPlace::offset);
    return {(order == UnitOrder::kForward ? unit : -unit) * kMostElements + bad,
            manifest[std::prev(behind)->tensor].name};
  }
  const FlatLayout& layout = plan.layouts().units[static_cast<std::size_t>(unit)];
  NonFinite first;
  layout.for_each_part(elements, [&](const Placement& placement, const Run& run) {
    const std::int64_t bad =
        first_bad_of_any(data + (run.unit_begin - elements.begin) * size_of(dtype), run.count, dtype);
    const std::int64_t place =
        (order == UnitOrder::kForward ? unit : -unit) * kMostElements + run.unit_begin + bad;
    if (bad < 0 || (first.found() && first.place < place)) return;
    const std::string& name = manifest[placement.tensor].name;
    const std::int64_t expert = run.tensor_begin / placement.block_elements;
    first = {place, placement.blocks == 1 ? name : fmt::format("{} (expert {})", name, expert)};
  });
  return first;
}

NonFinite find_non_finite(const StoredUnitValues& values, const ParameterManifest& manifest, int unit,
                          UnitOrder order) {
  constexpr std::int64_t kAtOnce = 64 * std::int64_t{1024};  // elements that are dequantised together
  const ShardPlan& plan = values.plan();
  std::vector<std::byte> piece(static_cast<std::size_t>(kAtOnce * size_of(values.dtype())));
  NonFinite first;
  for (const Placement& placement : plan.layouts().units[static_cast<std::size_t>(unit)].placements())
    plan.owned_runs(placement.tensor, values.rank(), [&](const ShardPlan::OwnedRun& run) {
      for (std::int64_t done = 0; done < run.count; done += kAtOnce) {
        const std::int64_t count = std::min(kAtOnce, run.count - done), place = run.arena_begin + done;
        values.read(place, count, values.dtype(), piece.data());
        const std::int64_t begin = plan.unit_element(values.rank(), place).element;
        NonFinite found = find_non_finite(plan, manifest, unit, {begin, begin + count}, piece.data(),
                                          values.dtype(), order);
        if (found.found() && (!first.found() || found.place < first.place)) first = std::move(found);
      }
    });
  return first;
}

NonFinite find_non_finite(const ShardArena& shards, const ParameterManifest& manifest, UnitOrder order) {
  const ShardPlan& plan = shards.plan();
  const int units = static_cast<int>(plan.layouts().units.size());
  for (int i = 0; i < units; ++i) {
    const int unit = order == UnitOrder::kForward ? i : units - 1 - i;
    if (!shards.holds(unit) || shards.is_elsewhere(unit)) continue;
    position::begin("finite_check", unit);
    NonFinite found = plan.is_stored(unit)
                          ? find_non_finite(StoredUnitValues(*shards.stored(), unit, shards.stored_data(unit),
                                                             shards.dtype()),
                                            manifest, unit, order)
                          : find_non_finite(plan, manifest, unit, plan.owned(unit, shards.rank()),
                                            shards.unit_data(unit), shards.dtype(), order);
    if (found.found()) return found;
  }
  if (shards.buffers() == nullptr) return {};
  const Range whole = plan.layouts().trained_buffers;
  return find_non_finite(plan, manifest, plan.whole_unit(), whole,
                         reinterpret_cast<const std::byte*>(shards.buffers() + whole.begin), DType::kFloat32,
                         order);
}

std::string first_of_ranks(Communicator& comm, const NonFinite& own) {
  std::array<std::int64_t, 1> count{own.found() ? 1 : 0};
  comm.all_reduce_sum(std::span<std::int64_t>(count));
  if (count[0] == 0) return "";
  ByteWriter out;
  out.number(own.place);
  out.text(own.name);
  NonFinite first;
  int rank_of_first = -1, rank = 0;
  for (const std::string& text : comm.all_gather_text(out.bytes())) {
    ByteReader in(text);
    NonFinite found{in.number(), in.text()};
    if (found.found() && (rank_of_first < 0 || found.place < first.place)) {
      first = std::move(found);
      rank_of_first = rank;
    }
    ++rank;
  }
  return fmt::format("{} on rank {}", first.name, rank_of_first);
}

}  // namespace sluice
