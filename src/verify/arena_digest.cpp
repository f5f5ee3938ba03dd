#include "verify/arena_digest.hpp"

#include "base/byte_stream.hpp"
#include "base/error.hpp"
#include "shard/shard_values.hpp"
#include "verify/tensor_digest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

namespace sluice {
namespace {

/// Digests a rank's values in the types of the parts.
class ArenaDigester {
 public:
  ArenaDigester(const ShardValues& weights, std::span<PlacedPart> parts) : weights_(weights), parts_(parts) {}

  /// Digests all values, unit by unit.
  void run(Communicator& comm) {
    std::vector<std::size_t> order(parts_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const UnitLayouts& layouts = weights_.plan().layouts();
    std::ranges::sort(order, {}, [&](std::size_t i) {
      const PlacedPart& part = parts_[i];
      return std::tuple(layouts.unit_of(part.tensor),
                        layouts.placement_of(part.tensor).place_of(part.elements.begin));
    });
    auto next = order.begin();
    for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit) {
      ByteWriter fragments;
      for (; next != order.end() && layouts.unit_of(parts_[*next].tensor) == unit; ++next)
        digest_owned(*next, fragments);
      complete_blocks(comm, fragments.bytes());
    }
  }

  /// Digests what this rank owns of part `i`, and writes the blocks that other ranks complete to `fragments`.
  void digest_owned(std::size_t i, ByteWriter& fragments) {
    PlacedPart& part = parts_[i];
    TensorDigester digester(part.elements.count() * size_of(part.dtype));
    weights_.plan().owned_runs(part.tensor, part.elements, weights_.rank(),
                               [&](const ShardPlan::OwnedRun& run) { digest_run(part, run, digester); });
    part.in_arena += digester.sum();
    for (const TensorDigester::Fragment& fragment : digester.fragments()) {
      fragments.number(static_cast<std::int64_t>(i));
      fragments.number(fragment.offset);
      fragments.text(fragment.bytes);
    }
  }

  /// Digests this rank's copy of a part that every rank holds whole.
  void digest_copy(PlacedPart& part) {
    const std::int64_t size = size_of(part.dtype), total = part.elements.count();
    const std::int64_t begin = weights_.plan().layouts().buffer_of(part.tensor)->offset + part.elements.begin;
    TensorDigester digester(total * size);
    std::vector<float> values(static_cast<std::size_t>(std::min(kSliceElements, total)));
    for (std::int64_t done = 0; done < total; done += kSliceElements) {
      const std::int64_t count = std::min(kSliceElements, total - done);
      weights_.read_buffers(begin + done, count, values.data());
      const auto* data = reinterpret_cast<const std::byte*>(values.data());
      digester.add(done * size,
                   {as_compared(data, DType::kFloat32, count, part), static_cast<std::size_t>(count * size)});
    }
    part.in_arena += digester.sum();
  }

 private:
  static constexpr std::int64_t kSliceElements = 256 * std::int64_t{1024};

  void digest_run(PlacedPart& part, const ShardPlan::OwnedRun& run, TensorDigester& digester) {
    const std::int64_t size = size_of(part.dtype);
    for (std::int64_t done = 0; done < run.count; done += kSliceElements) {
      const std::int64_t count = std::min(kSliceElements, run.count - done);
      const std::byte* data =
          as_compared(weights_at(run.arena_begin + done, count), weights_.dtype(), count, part);
      digester.add((run.tensor_begin + done - part.elements.begin) * size,
                   {data, static_cast<std::size_t>(count * size)});
    }
  }

  /// Elements in the type of the values, dequantised if they are stored.
  const std::byte* weights_at(std::int64_t place, std::int64_t count) {
    if (const std::byte* here = weights_.find(place, weights_.dtype())) return here;
    weights_read_.resize(static_cast<std::size_t>(kSliceElements * size_of(weights_.dtype())));
    weights_.read(place, count, weights_.dtype(), weights_read_.data());
    return weights_read_.data();
  }

  /// Elements in the part's type. Counts those that change when converted there and back.
  const std::byte* as_compared(const std::byte* data, DType dtype, std::int64_t count, PlacedPart& part) {
    if (dtype == part.dtype) return data;
    rounded_.resize(kSliceElements);
    widened_.resize(kSliceElements);
    convert_elements(data, dtype, rounded_.data(), part.dtype, count);
    convert_elements(rounded_.data(), part.dtype, widened_.data(), dtype, count);
    if (std::memcmp(data, widened_.data(), static_cast<std::size_t>(count) * sizeof(float)) != 0)
      part.altered += count_altered(reinterpret_cast<const float*>(data), count);
    return reinterpret_cast<const std::byte*>(rounded_.data());
  }

  [[nodiscard]] std::int64_t count_altered(const float* values, std::int64_t count) const {
    std::int64_t altered = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const float back = widened_[static_cast<std::size_t>(i)];
      const bool same = std::bit_cast<std::uint32_t>(values[i]) == std::bit_cast<std::uint32_t>(back);
      if (!same && !(std::isnan(values[i]) && std::isnan(back))) ++altered;
    }
    return altered;
  }

  /// Puts the fragments of all ranks together on rank 0.
  void complete_blocks(Communicator& comm, const std::string& own_fragments) {
    const std::vector<std::string> all = comm.all_gather_text(own_fragments);
    if (comm.rank() != 0) return;
    std::map<std::size_t, TensorDigester> digesters;
    for (const std::string& text : all) {
      for (ByteReader in(text); !in.at_end();) {
        const auto i = static_cast<std::size_t>(in.number());
        const std::int64_t offset = in.number();
        const std::string bytes = in.text();
        digesters.try_emplace(i, parts_[i].elements.count() * size_of(parts_[i].dtype))
            .first->second.add(offset, std::as_bytes(std::span(bytes)));
      }
    }
    for (const auto& [i, digester] : digesters) parts_[i].in_arena += digester.sum();
  }

  const ShardValues& weights_;
  std::span<PlacedPart> parts_;
  std::vector<std::byte> weights_read_;
  std::vector<std::uint16_t> rounded_;
  std::vector<float> widened_;
};

/// Writes a digest as four digits of 32 bits, the highest first, whose sums over 2^31 ranks fit an int64.
void put_digits(const Digest& digest, std::vector<std::int64_t>& digits) {
  for (const std::uint64_t half : {digest.high, digest.low})
    for (const std::uint64_t digit : {half >> 32, half & 0xffffffffu})
      digits.push_back(static_cast<std::int64_t>(digit));
}

Digest digest_from(std::span<const std::int64_t, 4> digits) {
  Digest digest;
  for (const std::int64_t digit : digits) {
    digest = {digest.high << 32 | digest.low >> 32, digest.low << 32};
    digest += {0, static_cast<std::uint64_t>(digit)};
  }
  return digest;
}

}  // namespace

void sum_over_ranks(Communicator& comm, std::span<PlacedPart> parts) {
  constexpr std::size_t kAtOnce = 4096;
  std::vector<std::int64_t> digits;
  while (!parts.empty()) {
    const std::span<PlacedPart> some = parts.first(std::min(kAtOnce, parts.size()));
    digits.clear();
    for (const PlacedPart& part : some) {
      put_digits(part.in_arena, digits);
      put_digits(part.in_file, digits);
      digits.push_back(part.altered);
    }
    comm.all_reduce_sum(digits);
    std::span<const std::int64_t> rest = digits;
    for (PlacedPart& part : some) {
      part.in_arena = digest_from(rest.subspan<0, 4>());
      part.in_file = digest_from(rest.subspan<4, 4>());
      part.altered = rest[8];
      rest = rest.subspan(9);
    }
    parts = parts.subspan(some.size());
  }
}

void digest_arenas(Communicator& comm, const ShardArena& weights, std::span<PlacedPart> parts) {
  ArenaDigester(ArenaValues(weights), parts).run(comm);
}

void digest_copies(const ShardArena& weights, std::span<PlacedPart> parts) {
  const ArenaValues values(weights);
  ArenaDigester digester(values, parts);
  for (PlacedPart& part : parts) digester.digest_copy(part);
}

FrozenDigest::FrozenDigest(Communicator& comm, const ShardArena& weights, const ParameterManifest& manifest)
    : comm_(comm), manifest_(manifest), stored_(weights.stored()), dtype_(weights.dtype()) {
  const std::vector<FlatLayout>& units = weights.plan().layouts().units;
  std::size_t here = 0;  // number of parts in memory, which come first
  for (const bool is_elsewhere : {false, true}) {
    for (int unit = 0; unit < std::ssize(units); ++unit) {
      const FlatLayout& layout = units[static_cast<std::size_t>(unit)];
      if (layout.is_trained() || weights.is_elsewhere(unit) != is_elsewhere) continue;
      if (is_elsewhere) missing_.insert(unit);
      for (const Placement& placement : layout.placements())
        for (std::int64_t begin = 0; begin < placement.elements(); begin += placement.block_elements)
          parts_.push_back(
              {0, placement.tensor, {begin, begin + placement.block_elements}, dtype_, {}, {}, 0});
    }
    if (!is_elsewhere) here = parts_.size();
  }
  digest_arenas(comm, weights, std::span(parts_).first(here));
}

void FrozenDigest::add(int unit, const std::byte* bytes) {
  const StoredUnitValues values(*stored_, unit, bytes, dtype_);
  ArenaDigester digester(values, parts_);
  ByteWriter fragments;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (values.plan().layouts().unit_of(parts_[i].tensor) == unit) digester.digest_owned(i, fragments);
  SLUICE_ASSERT(fragments.bytes().empty(), "unit {} has experts that several ranks share", unit);
  missing_.erase(unit);
}

Digest FrozenDigest::sum() {
  SLUICE_ASSERT(missing_.empty(), "the digest lacks {} units, the first of which is {}", missing_.size(),
                *missing_.begin());
  // Layout without stored units: its places are the same for all formats of a base.
  const UnitLayouts plain = make_unit_layouts(manifest_);
  sum_over_ranks(comm_, parts_);
  Digest sum;
  for (const PlacedPart& part : parts_)
    sum += digest_of(fmt::format("{} {} {} {}", manifest_[part.tensor].name,
                                 plain.placement_of(part.tensor).place_of(part.elements.begin),
                                 part.elements.count(), part.in_arena.hex()));
  return sum;
}

}  // namespace sluice
