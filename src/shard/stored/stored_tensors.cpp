#include "shard/stored/stored_tensors.hpp"

#include "base/byte_stream.hpp"
#include "shard/shard_plan.hpp"

#include <algorithm>

namespace sluice {

std::vector<int> StoredTensors::tensors() const {
  std::vector<int> all;
  for (const StoredRange& range : ranges) all.push_back(range.tensor);
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::int64_t StoredTensors::elements() const {
  std::int64_t all = 0;
  for (const StoredRange& range : ranges) all += range.count;
  return all;
}

StoredTensors StoredTensors::quantised() const {
  StoredTensors some{encodings, {}};
  for (const StoredRange& range : ranges)
    if (encodings[static_cast<std::size_t>(range.encoding)].codes != Codes::kBFloat16)
      some.ranges.push_back(range);
  return some;
}

std::string StoredTensors::to_bytes() const {
  ByteWriter out;
  out.number(static_cast<std::int64_t>(encodings.size()));
  for (const Encoding& encoding : encodings)
    for (const std::int64_t number : numbers_of(encoding)) out.number(number);
  for (const StoredRange& range : ranges)
    for (const std::int64_t number :
         {std::int64_t{range.tensor}, range.begin, range.count, std::int64_t{range.encoding}, range.element})
      out.number(number);
  return out.take();
}

StoredTensors StoredTensors::from_bytes(std::string_view bytes) {
  ByteReader in(bytes);
  StoredTensors out;
  for (std::int64_t left = in.number(); left > 0; --left) {
    EncodingNumbers numbers{};
    for (std::int64_t& number : numbers) number = in.number();
    out.encodings.push_back(encoding_from(numbers));
  }
  while (!in.at_end()) {
    StoredRange& range = out.ranges.emplace_back();
    range.tensor = static_cast<int>(in.number());
    range.begin = in.number();
    range.count = in.number();
    range.encoding = static_cast<int>(in.number());
    range.element = in.number();
  }
  return out;
}

std::vector<std::vector<StoredBytes>> stored_bytes(const ShardPlan& plan, const StoredTensors& tensors) {
  std::vector<std::vector<StoredBytes>> bytes(
      plan.layouts().units.size(), std::vector<StoredBytes>(static_cast<std::size_t>(plan.world())));
  for (const StoredRange& range : tensors.ranges) {
    const Encoding& encoding = tensors.encodings[static_cast<std::size_t>(range.encoding)];
    const int unit = plan.layouts().unit_of(range.tensor);
    plan.owned_runs(range.tensor, {range.begin, range.begin + range.count},
                    [&](int rank, const ShardPlan::OwnedRun& run) {
                      const std::int64_t element = range.element + run.tensor_begin - range.begin;
                      StoredBytes& own =
                          bytes[static_cast<std::size_t>(unit)][static_cast<std::size_t>(rank)];
                      own.codes += encoding.code_bytes(run.count);
                      own.scales += encoding.scale_bytes(encoding.scales_of({element, element + run.count}));
                    });
  }
  return bytes;
}

std::int64_t largest_stored_dense(const ShardPlan& plan) {
  std::int64_t most = 0;
  for (const FlatLayout& unit : plan.layouts().units)
    if (unit.is_stored() && unit.kind() != UnitKind::kExperts) most = std::max(most, unit.elements());
  return most;
}

std::int64_t largest_stored_expert(const ShardPlan& plan, int rank) {
  std::int64_t most = 0;
  for (int unit = 0; unit < static_cast<int>(plan.layouts().units.size()); ++unit)
    if (plan.is_stored(unit) && plan.has_experts(unit) && plan.gathered_range(unit, rank).count() > 0)
      most = std::max(most, plan.layouts().units[static_cast<std::size_t>(unit)].expert_begin(1));
  return most;
}

}  // namespace sluice
