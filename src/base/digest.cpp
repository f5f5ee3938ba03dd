#include "base/digest.hpp"

#include <fmt/format.h>
#include <xxhash.h>

namespace sluice {

std::string Digest::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Digest digest_of(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.high64, hash.low64};
}

}  // namespace sluice
