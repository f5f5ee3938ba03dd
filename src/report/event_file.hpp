// TensorBoard's event files: TFRecord records, each an Event message with scalars. Only the parts that are
// written here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// Checksum CRC-32C (Castagnoli) of the bytes.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

/// A TFRecord record: a message with its length and both masked checksums.
[[nodiscard]] std::string tf_record(std::string_view message);

/// A number with its tag in TensorBoard.
struct EventScalar {
  std::string_view tag;
  double value = 0;  ///< value of the scalar; stored as float32
};

/// First message of a file: version "brain.Event:2".
[[nodiscard]] std::string event_file_version(double wall_time);

/// Message with a step's scalars; `wall_time` in seconds since 1970, UTC.
[[nodiscard]] std::string event_of_step(double wall_time, std::int64_t step,
                                        std::span<const EventScalar> scalars);

}  // namespace sluice
