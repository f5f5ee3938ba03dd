#include "verify/tensor_digest.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace sluice {

void TensorDigester::add(std::int64_t offset, std::span<const std::byte> bytes) {
  SLUICE_ASSERT(offset >= 0 && static_cast<std::int64_t>(bytes.size()) <= tensor_bytes_ - offset,
                "{} bytes at offset {} of a tensor of {}", bytes.size(), offset, tensor_bytes_);
  while (!bytes.empty()) {
    const std::int64_t block = offset / kDigestBlockBytes;
    const std::int64_t begin = offset % kDigestBlockBytes;
    const std::int64_t whole = block_bytes(block);
    const std::int64_t count = std::min(whole - begin, static_cast<std::int64_t>(bytes.size()));
    const std::span<const std::byte> part = bytes.first(static_cast<std::size_t>(count));
    if (count == whole)
      sum_ += digest_of(part, static_cast<std::uint64_t>(block));
    else
      keep(block, begin, part);
    offset += count;
    bytes = bytes.subspan(part.size());
  }
}

std::vector<TensorDigester::Fragment> TensorDigester::fragments() const {
  std::vector<Fragment> fragments;
  for (const OpenBlock& block : open_)
    for (const Range& held : block.held)
      fragments.push_back({block.number * kDigestBlockBytes + held.begin,
                           std::string(reinterpret_cast<const char*>(block.bytes.data()) + held.begin,
                                       static_cast<std::size_t>(held.count()))});
  return fragments;
}

std::int64_t TensorDigester::block_bytes(std::int64_t block) const {
  return std::min(kDigestBlockBytes, tensor_bytes_ - block * kDigestBlockBytes);
}

void TensorDigester::keep(std::int64_t block, std::int64_t begin, std::span<const std::byte> bytes) {
  const std::int64_t end = begin + static_cast<std::int64_t>(bytes.size());
  auto open = std::ranges::find(open_, block, &OpenBlock::number);
  if (open == open_.end()) {
    open_.emplace_back().number = block;
    open = open_.end() - 1;
  }
  std::ranges::copy(bytes, open->bytes.begin() + begin);
  if (!open->held.empty() && open->held.back().end == begin)
    open->held.back().end = end;
  else
    open->held.push_back({begin, end});
  open->held_bytes += end - begin;
  SLUICE_ASSERT(open->held_bytes <= block_bytes(block), "bytes of block {} were added twice", block);
  if (open->held_bytes < block_bytes(block)) return;
  const std::span<const std::byte> whole =
      std::span(open->bytes).first(static_cast<std::size_t>(open->held_bytes));
  sum_ += digest_of(whole, static_cast<std::uint64_t>(block));
  open_.erase(open);
}

}  // namespace sluice
