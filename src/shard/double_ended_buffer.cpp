#include "shard/double_ended_buffer.hpp"

#include "base/error.hpp"

#include <cstring>

namespace sluice {

DoubleEndedBuffer::DoubleEndedBuffer(MemoryKind memory, std::int64_t bytes, std::string_view purpose)
    : block_(allocate(memory, bytes, purpose)) {}

std::span<std::byte> DoubleEndedBuffer::take(std::int64_t bytes) {
  if (bytes == 0) return {};
  SLUICE_ASSERT((front_ == 0 || back_ == 0) && front_ + back_ + bytes <= block_.bytes(),
                "{} bytes do not fit beside {} and {} in use of {}", bytes, front_, back_, block_.bytes());
  const bool at_front = front_ == 0;
  (at_front ? front_ : back_) = bytes;
  return {block_.data() + (at_front ? 0 : block_.bytes() - bytes), static_cast<std::size_t>(bytes)};
}

void DoubleEndedBuffer::give_back(std::span<std::byte> part) {
  if (part.empty()) return;
#ifndef NDEBUG
  constexpr int kNanByte = 0xff;  // all bits set is a NaN in float32 and in bfloat16
  if (block_.kind() != MemoryKind::kDevice) std::memset(part.data(), kNanByte, part.size());
#endif
  (part.data() == block_.data() ? front_ : back_) = 0;
}

}  // namespace sluice
