// TensorBoard's event files: records framed as TFRecord, each an Event message with scalars. Just what we
// write of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// CRC-32C (Castagnoli) of the bytes.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

/// A record with its length and both masked checksums.
[[nodiscard]] std::string tf_record(std::string_view message);

/// A number under a tag of TensorBoard.
struct EventScalar {
  std::string_view tag;
  double value = 0;  ///< stored as float32
};

/// The message that begins a file: "brain.Event:2".
[[nodiscard]] std::string event_file_version(double wall_time);

/// The message of a step's scalars; wall_time in seconds since 1970, UTC.
[[nodiscard]] std::string event_of_step(double wall_time, std::int64_t step,
                                        std::span<const EventScalar> scalars);

}  // namespace sluice
