// Byte counts as people write them: "8MiB", "128.5GB", "4096".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

inline constexpr std::int64_t kKiB = 1024;
inline constexpr std::int64_t kMiB = 1024 * kKiB;
inline constexpr std::int64_t kGiB = 1024 * kMiB;

/// Bytes of a text made of a number and B, kB/MB/GB/TB (powers of 1000) or KiB/MiB/GiB/TiB (powers of 1024);
/// a bare number is bytes. Nothing for anything else, negatives and values above 2^62 included.
[[nodiscard]] std::optional<std::int64_t> parse_bytes(std::string_view text);

/// Bytes a second of a link's rate, "1Gbit" or "2.5Gbit" (bits a second, in powers of 1000), or of a size a second as
/// parse_bytes() reads it. Nothing for anything else.
[[nodiscard]] std::optional<std::int64_t> parse_link_rate(std::string_view text);

/// Byte count as text in powers of 1000, "23.10 GB", "512 B": the unit of disks, vendors and checkpoints.
[[nodiscard]] std::string format_bytes(std::int64_t bytes);

/// Byte count as text in powers of 1024, "61.4 MiB": the unit of memory tables.
[[nodiscard]] std::string format_mib(std::int64_t bytes);

}  // namespace sluice
