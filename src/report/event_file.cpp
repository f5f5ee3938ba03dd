#include "report/event_file.hpp"

#include <array>
#include <bit>

namespace sluice {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's polynomial, bits reversed
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}

template <class Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(number); ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

/// Masked checksum: masking keeps a checksum of data that contain checksums meaningful.
std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8U; }

// Wire types of protocol buffers: a field is its number and type, then its value.
enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(std::uint64_t field, Wire wire) {
  return varint((field << 3) | static_cast<std::uint64_t>(wire));
}

std::string bytes_field(std::uint64_t field, std::string_view bytes) {
  return key(field, Wire::kBytes) + varint(bytes.size()) + std::string(bytes);
}

std::string double_field(std::uint64_t field, double value) {
  return key(field, Wire::kFixed64) + little_endian(std::bit_cast<std::uint64_t>(value));
}

std::string float_field(std::uint64_t field, float value) {
  return key(field, Wire::kFixed32) + little_endian(std::bit_cast<std::uint32_t>(value));
}

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto.
namespace event {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
}
namespace summary {
constexpr int kValue = 1, kTag = 1, kSimpleValue = 2;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string tf_record(std::string_view message) {
  const std::string length = little_endian(std::uint64_t{message.size()});
  return length + little_endian(masked_crc(length)) + std::string(message) +
         little_endian(masked_crc(message));
}

std::string event_file_version(double wall_time) {
  return double_field(event::kWallTime, wall_time) + bytes_field(event::kFileVersion, "brain.Event:2");
}

std::string event_of_step(double wall_time, std::int64_t step, std::span<const EventScalar> scalars) {
  std::string values;
  for (const EventScalar& scalar : scalars)
    values += bytes_field(summary::kValue,
                          bytes_field(summary::kTag, scalar.tag) +
                              float_field(summary::kSimpleValue, static_cast<float>(scalar.value)));
  return double_field(event::kWallTime, wall_time) + key(event::kStep, Wire::kVarint) +
         varint(static_cast<std::uint64_t>(step)) + bytes_field(event::kSummary, values);
}

}  // namespace sluice
