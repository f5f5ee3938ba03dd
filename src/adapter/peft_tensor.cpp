#include "adapter/peft_tensor.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace sluice {

std::vector<PeftPart> parts_of_a(const ParameterManifest& manifest, const AdaptableWeight& weight,
                                 std::int64_t rank) {
  return {{adapter_names(manifest, weight.ranges.front().tensor).a, 0,
           ElementMap::straight(0, weight.experts() * rank * weight.in())}};
}

std::vector<PeftPart> parts_of_b(const ParameterManifest& manifest, const AdaptableWeight& weight,
                                 std::int64_t rank) {
  const std::int64_t experts = weight.experts(), out = weight.out();
  if (experts > 1)
    return {{adapter_names(manifest, weight.ranges.front().tensor).b,
             0,
             {0, {out, rank, experts}, {rank, 1, out * rank}}}};
  std::vector<PeftPart> parts;
  std::int64_t row = 0;
  for (const TensorRange& range : weight.ranges) {
    const std::int64_t first = range.begin / weight.in(), rows = range.count / weight.in();
    parts.push_back({adapter_names(manifest, range.tensor).b, row * rank,
                     ElementMap::straight(first * rank, rows * rank)});
    row += rows;
  }
  return parts;
}

void for_each_piece(const PeftTensor& tensor, std::int64_t room, const std::function<void(Range)>& visit) {
  if (tensor.parts.size() == 1) return for_each_piece(tensor.parts.front().map, room, visit);
  for_each_piece(ElementMap::straight(0, tensor.parts.back().end()), room, visit);
}

OwnedParts::OwnedParts(const PeftTensor& tensor, const ParameterManifest& manifest, const ShardPlan& shards,
                       int rank)
    : tensor_(tensor) {
  for (const PeftPart& part : tensor.parts) {
    const auto index = manifest.find(part.tensor);
    SLUICE_ASSERT(index.has_value(), "the manifest has no {}", part.tensor);
    SLUICE_ASSERT(part.map.begin + part.map.count() <= manifest[*index].element_count(),
                  "{} is too large for {}", tensor.entry.name, part.tensor);
    if (!owned_.contains(part.tensor)) owned_.emplace(part.tensor, OwnedElements(shards, *index, rank));
  }
}

void OwnedParts::for_each_run(Range file, const std::function<void(const MappedRun&)>& visit) const {
  auto part = std::ranges::upper_bound(tensor_.parts, file.begin, {}, &PeftPart::begin);
  if (part != tensor_.parts.begin()) --part;
  for (; part != tensor_.parts.end() && part->begin < file.end; ++part) {
    const Range inside{std::max(file.begin, part->begin) - part->begin,
                       std::min(file.end, part->end()) - part->begin};
    owned_.at(part->tensor).for_each_run(part->map, inside, [&](MappedRun run) {
      run.file += part->begin;
      visit(run);
    });
  }
}

}  // namespace sluice
