#include "adapter/peft_tensor.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace sluice {

std::vector<PeftPart> parts_of_a(const ParameterManifest& manifest, const AdaptableWeight& weight,
                                 std::int64_t rank) {
  return {{adapter_names(manifest, weight.ranges.front().tensor).a,
           0,
           {.begin = 0, .count = weight.experts() * rank * weight.in()}}};
}

std::vector<PeftPart> parts_of_b(const ParameterManifest& manifest, const AdaptableWeight& weight,
                                 std::int64_t rank) {
  const std::int64_t experts = weight.experts(), out = weight.out();
  if (experts > 1)  // the file has [experts, out x rank]
    return {{adapter_names(manifest, weight.ranges.front().tensor).b,
             0,
             {.begin = 0, .count = out * rank * experts, .rows = out * rank, .columns = experts}}};
  std::vector<PeftPart> parts;
  std::int64_t row = 0;
  for (const TensorRange& range : weight.ranges) {
    const std::int64_t first = range.begin / weight.in(), rows = range.count / weight.in();
    parts.push_back(
        {adapter_names(manifest, range.tensor).b, row * rank, {.begin = first * rank, .count = rows * rank}});
    row += rows;
  }
  return parts;
}

void for_each_chunk(const PeftTensor& tensor, std::int64_t room, const std::function<void(Range)>& visit) {
  const std::int64_t end = tensor.parts.back().end();
  for (std::int64_t begin = 0; begin < end; begin += room) visit({begin, std::min(begin + room, end)});
}

void for_each_move(const PeftTensor& tensor, const ParameterManifest& manifest, const ShardPlan& shards,
                   int rank, Range file, const std::function<void(const Move&)>& visit) {
  for (const PeftPart& part : tensor.parts) {
    const Range inside = common(file, {part.begin, part.end()});
    if (inside.count() <= 0) continue;
    const auto index = manifest.find(part.tensor);
    SLUICE_ASSERT(index.has_value(), "the manifest has no tensor {}", part.tensor);
    SLUICE_ASSERT(part.range.begin + part.range.count <= manifest[*index].element_count(),
                  "{} is too large for {}", tensor.entry.name, part.tensor);
    FileRange range = part.range;
    range.tensor = *index;
    for_each_move(shards, range, {inside.begin - part.begin, inside.end - part.begin}, rank, [&](Move move) {
      move.file += part.begin;
      move.matrix += part.begin;
      visit(move);
    });
  }
}

}  // namespace sluice
