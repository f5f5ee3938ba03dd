// 128-bit content digests (XXH3).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// A 128-bit digest.
struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Digest&) const = default;
  /// The digest as 32 hexadecimal digits.
  [[nodiscard]] std::string hex() const;
  /// Adds a digest modulo 2^128: digests of parts add up in any order.
  Digest& operator+=(const Digest& other);
};

/// The digest whose hex() is `text`; nothing for any other text.
[[nodiscard]] std::optional<Digest> digest_from_hex(std::string_view text);

/// XXH3-128 of the bytes of `text`.
[[nodiscard]] Digest digest_of(std::string_view text);
/// XXH3-128 of `bytes` with a seed.
[[nodiscard]] Digest digest_of(std::span<const std::byte> bytes, std::uint64_t seed);

}  // namespace sluice
