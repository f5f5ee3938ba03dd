#include "base/byte_stream.hpp"

#include "base/error.hpp"

#include <cstring>
#include <utility>

namespace sluice {

void ByteWriter::number(std::int64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void ByteWriter::text(std::string_view value) {
  number(static_cast<std::int64_t>(value.size()));
  bytes_.append(value);
}

std::string_view ByteReader::next(std::int64_t count) {
  SLUICE_ASSERT(std::cmp_less_equal(count, rest_.size()) && count >= 0, "{} bytes are read where {} are left",
                count, rest_.size());
  const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(count));
  rest_.remove_prefix(taken.size());
  return taken;
}

std::int64_t ByteReader::number() {
  std::int64_t value = 0;
  std::memcpy(&value, next(sizeof value).data(), sizeof value);
  return value;
}

std::string ByteReader::text() {
  const std::int64_t length = number();
  return std::string(next(length));
}

}  // namespace sluice
