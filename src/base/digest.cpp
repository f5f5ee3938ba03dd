#include "base/digest.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <charconv>
#include <system_error>
#include <utility>

namespace sluice {

std::string Digest::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Digest& Digest::operator+=(const Digest& other) {
  low += other.low;
  high += other.high + (low < other.low ? 1 : 0);
  return *this;
}

std::optional<Digest> digest_from_hex(std::string_view text) {
  constexpr std::size_t kDigits = 16;
  if (text.size() != 2 * kDigits) return std::nullopt;
  Digest digest;
  for (const auto& [part, half] :
       {std::pair(text.substr(0, kDigits), &digest.high), std::pair(text.substr(kDigits), &digest.low)}) {
    const char* const first = part.data();
    const char* const last = first + kDigits;
    const auto [end, error] = std::from_chars(first, last, *half, 16);
    if (error != std::errc() || end != last) return std::nullopt;
  }
  return digest.hex() == text ? std::optional(digest) : std::nullopt;
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
