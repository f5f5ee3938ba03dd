// 128-bit content digests (XXH3).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Digest&) const = default;
  /// 32 hexadecimal digits.
  [[nodiscard]] std::string hex() const;
};

/// XXH3-128 of the bytes of `text`.
[[nodiscard]] Digest digest_of(std::string_view text);

}  // namespace sluice
