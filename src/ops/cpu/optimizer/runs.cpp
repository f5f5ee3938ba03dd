#include "ops/cpu/optimizer/runs.hpp"

#include "base/round.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

namespace sluice::ops::cpu::optimizer {
namespace {

/// Chunks given to a thread at least: some 32 thousand elements.
constexpr std::int64_t kGrain = 32768 / kChunk;

}  // namespace

void for_each_chunk(std::span<const UpdateRun> runs, const std::function<void(const Chunk&)>& visit) {
  std::vector<std::int64_t> begins;  // number of each run's first chunk
  begins.reserve(runs.size());
  std::int64_t all = 0;
  for (const UpdateRun& run : runs) {
    begins.push_back(all);
    all += divide_up(run.count, kChunk);
  }
  at::parallel_for(0, all, kGrain, [&](std::int64_t begin, std::int64_t end) {
    auto number = static_cast<std::size_t>(std::ranges::upper_bound(begins, begin) - begins.begin()) - 1;
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      while (number + 1 < runs.size() && begins[number + 1] <= chunk) ++number;
      const UpdateRun& run = runs[number];
      const std::int64_t offset = (chunk - begins[number]) * kChunk;
      visit({&run, offset, std::min(kChunk, run.count - offset)});
    }
  });
}

OpenChunk::OpenChunk(const Chunk& chunk, const UpdateFormats& formats, bool has_second)
    : chunk_(chunk),
      run_(*chunk.run),
      formats_(formats),
      weights_(run_.weights, run_.master, formats, chunk.offset, chunk.count),
      gradient_(open_gradient(run_.gradient, formats.gradient, chunk.offset, chunk.count, gradient_buffer_)) {
  open_first();
  if (has_second) open_second();
}

void OpenChunk::save() {
  alignas(64) Draws draws;
  if (weights_.draws() || (second_ != nullptr && formats_.state == StateFormat::kBFloat16))
    draw(run_.draws, run_.begin + chunk_.offset, chunk_.count, draws.data());
  weights_.save(draws.data());
  save_first();
  if (second_ != nullptr) save_second(draws.data());
}

void OpenChunk::open_first() {
  first_ = formats_.state == StateFormat::kFloat32 ? at_element<float>(run_.first, chunk_.offset)
                                                   : first_buffer_.data();
  if (formats_.state == StateFormat::kBFloat16)
    read_bfloat16(at_element<std::uint16_t>(run_.first, chunk_.offset), chunk_.count, first_);
  else if (formats_.state == StateFormat::kInt8)
    read_first_codes(at_element<std::int8_t>(run_.first, chunk_.offset), first_scales(), chunk_.count,
                     first_);
}

void OpenChunk::save_first() {
  if (formats_.state == StateFormat::kBFloat16)
    write_bfloat16(first_, chunk_.count, at_element<std::uint16_t>(run_.first, chunk_.offset));
  else if (formats_.state == StateFormat::kInt8)
    write_first_codes(first_, chunk_.count, at_element<std::int8_t>(run_.first, chunk_.offset),
                      first_scales());
}

void OpenChunk::open_second() {
  second_ = formats_.state == StateFormat::kFloat32 ? at_element<float>(run_.second, chunk_.offset)
                                                    : second_buffer_.data();
  if (formats_.state == StateFormat::kBFloat16)
    read_bfloat16(at_element<std::uint16_t>(run_.second, chunk_.offset), chunk_.count, second_);
  else if (formats_.state == StateFormat::kInt8)
    read_root_codes(at_element<std::uint8_t>(run_.second, chunk_.offset), second_scales(), chunk_.count,
                    second_);
}

void OpenChunk::save_second(const std::uint32_t* draws) {
  if (formats_.state == StateFormat::kBFloat16)
    write_moment_stochastically(second_, draws, chunk_.count,
                                at_element<std::uint16_t>(run_.second, chunk_.offset));
  else if (formats_.state == StateFormat::kInt8)
    write_root_codes(second_, chunk_.count, at_element<std::uint8_t>(run_.second, chunk_.offset),
                     second_scales());
}

}  // namespace sluice::ops::cpu::optimizer
