#include "base/digest.hpp"

#include <fmt/format.h>
#include <xxhash.h>

namespace sluice {

std::string Digest::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Digest& Digest::operator+=(const Digest& other) {
  low += other.low;
  high += other.high + (low < other.low ? 1 : 0);
  return *this;
}

Digest digest_of(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.high64, hash.low64};
}

Digest digest_of(std::span<const std::byte> bytes, std::uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.high64, hash.low64};
}

}  // namespace sluice
