#include "verify/content_parts.hpp"

#include "base/error.hpp"
#include "manifest/key_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace sluice {
namespace {

/// Appends the parts of an entry's range, each with `size` elements. Their shapes are set later.
void add_range(const MatchedEntry& range, std::int64_t size, std::vector<ContentPart>& parts) {
  const std::int64_t end = range.begin + range.count;
  for (std::int64_t begin = range.begin, count = 0; begin < end; begin += count) {
    count = std::min(end, (begin / size + 1) * size) - begin;
    const bool follows = begin % size > 0 && !parts.empty() && parts.back().tensor == range.tensor &&
                         parts.back().begin + parts.back().count() == begin;
    if (!follows) parts.push_back({"", {0}, {}, range.tensor, begin, range.is_transposed});
    ContentPart& part = parts.back();
    part.runs.push_back({range.entry_begin + begin - range.begin, part.count(), count});
    part.shape.front() += count;
  }
}

void name_part(const PerExpertCut& cut, std::int64_t size, const std::string& tensor, ContentPart& part) {
  if (part.count() == size) {
    part.name = cut.name_of(part.begin / size);
    part.shape = cut.shape();
  } else {
    SLUICE_ASSERT(!part.is_transposed, "{} elements of the matrices of {} are transposed", part.count(),
                  tensor);
    part.name = fmt::format("{}[{}:{}]", tensor, part.begin, part.begin + part.count());
  }
}

}  // namespace

std::vector<ContentPart> content_parts(const CheckpointEntry& entry) {
  const PerExpertCut cut(plain_name(entry.name), entry.shape);
  const std::int64_t size = element_count(cut.shape());
  std::vector<ContentPart> parts;
  for (std::int64_t i = 0; i < cut.parts(); ++i)
    parts.push_back({cut.name_of(i), cut.shape(), {{i * size, 0, size}}});
  return parts;
}

std::vector<ContentPart> content_parts(const ParameterManifest& manifest,
                                       std::span<const MatchedEntry> ranges) {
  std::vector<MatchedEntry> sorted(ranges.begin(), ranges.end());
  std::ranges::sort(sorted, {},
                    [](const MatchedEntry& range) { return std::tuple(range.tensor, range.begin); });
  std::vector<ContentPart> parts;
  for (auto range = sorted.begin(); range != sorted.end();) {
    const int tensor = range->tensor;
    const TensorInfo& info = manifest[tensor];
    const PerExpertCut cut(info.name, info.shape,
                           manifest.has_transposed_experts() ? GateAndUp::kJoined : GateAndUp::kSplit);
    const std::int64_t size = element_count(cut.shape());
    const std::size_t first = parts.size();
    for (; range != sorted.end() && range->tensor == tensor; ++range) add_range(*range, size, parts);
    for (ContentPart& part : std::span(parts).subspan(first)) name_part(cut, size, info.name, part);
  }
  return parts;
}

}  // namespace sluice
