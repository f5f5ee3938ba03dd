#include "base/dtype.hpp"

#include "base/error.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace sluice {
namespace {

struct Row {
  DType dtype;
  std::int64_t size;
  std::string_view name;
  std::string_view safetensors;
};

constexpr std::array<Row, 15> kRows{{
    {DType::kFloat32, 4, "float32", "F32"},
    {DType::kBFloat16, 2, "bfloat16", "BF16"},
    {DType::kFloat16, 2, "float16", "F16"},
    {DType::kFloat64, 8, "float64", "F64"},
    {DType::kInt8, 1, "int8", "I8"},
    {DType::kInt16, 2, "int16", "I16"},
    {DType::kInt32, 4, "int32", "I32"},
    {DType::kInt64, 8, "int64", "I64"},
    {DType::kUInt8, 1, "uint8", "U8"},
    {DType::kUInt16, 2, "uint16", "U16"},
    {DType::kUInt32, 4, "uint32", "U32"},
    {DType::kUInt64, 8, "uint64", "U64"},
    {DType::kBool, 1, "bool", "BOOL"},
    {DType::kFloat8E4M3, 1, "float8_e4m3fn", "F8_E4M3"},
    {DType::kFloat8E5M2, 1, "float8_e5m2", "F8_E5M2"},
}};

const Row& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

/// Branch-free, so that loops over it vectorise: the exponent is rebiased by a product, which is exact and
/// handles subnormals; infinity and NaN, whose product is at least 2^16, get the largest exponent back.
float float16_value(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const float scaled = std::bit_cast<float>((bits & 0x7fffu) << 13) * 0x1p112f;
  const std::uint32_t special = scaled >= 0x1p16f ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

std::uint16_t float16_bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint16_t sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x38800000u) {  // subnormal or zero: scaled to an integer, rounded to even by nearbyint
    const float scaled = std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24f);
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(scaled));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

template <class T>
T load(const void* source, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(source) + index * static_cast<std::int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

float identity(float value) { return value; }

template <class From, class To, class Widen, class Narrow>
void convert(const void* source, void* target, std::int64_t count, Widen widen, Narrow narrow) {
  To* out = static_cast<To*>(target);
  for (std::int64_t i = 0; i < count; ++i) out[i] = narrow(widen(load<From>(source, i)));
}

template <class From, class Widen>
void convert_from(const void* source, void* target, DType to, std::int64_t count, Widen widen) {
  switch (to) {
    case DType::kFloat32:
      return convert<From, float>(source, target, count, widen, identity);
    case DType::kBFloat16:
      return convert<From, std::uint16_t>(source, target, count, widen, bfloat16_bits);
    default:
      return convert<From, std::uint16_t>(source, target, count, widen, float16_bits);
  }
}

/// Elements whose bits under `mask` are all ones.
template <class T>
std::int64_t count_all_ones(const void* source, std::int64_t count, T mask) {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) found += (load<T>(source, i) & mask) == mask ? 1 : 0;
  return found;
}

bool is_training_float(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

}  // namespace

std::int64_t size_of(DType dtype) { return row(dtype).size; }
std::string_view name_of(DType dtype) { return row(dtype).name; }
std::string_view safetensors_name(DType dtype) { return row(dtype).safetensors; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& r : kRows)
    if (r.name == name) return r.dtype;
  return std::nullopt;
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const Row& r : kRows)
    if (r.safetensors == name) return r.dtype;
  return std::nullopt;
}

bool is_convertible(DType from, DType to) { return is_training_float(from) && is_training_float(to); }

std::int64_t count_non_finite(const void* source, DType dtype, std::int64_t count) {
  switch (dtype) {  // an exponent of ones; E4M3 has no infinity and one NaN, all ones
    case DType::kFloat64:
      return count_all_ones<std::uint64_t>(source, count, 0x7ff0000000000000u);
    case DType::kFloat32:
      return count_all_ones<std::uint32_t>(source, count, 0x7f800000u);
    case DType::kBFloat16:
      return count_all_ones<std::uint16_t>(source, count, 0x7f80u);
    case DType::kFloat16:
      return count_all_ones<std::uint16_t>(source, count, 0x7c00u);
    case DType::kFloat8E4M3:
      return count_all_ones<std::uint8_t>(source, count, 0x7fu);
    case DType::kFloat8E5M2:
      return count_all_ones<std::uint8_t>(source, count, 0x7cu);
    default:
      return 0;
  }
}

std::uint16_t bfloat16_bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float bfloat16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

void convert_elements(const void* source, DType from, void* target, DType to, std::int64_t count) {
  SLUICE_ASSERT(is_convertible(from, to), "no conversion from {} to {}", name_of(from), name_of(to));
  if (from == to) {
    std::memcpy(target, source, static_cast<std::size_t>(count * size_of(from)));
    return;
  }
  switch (from) {
    case DType::kFloat32:
      return convert_from<float>(source, target, to, count, identity);
    case DType::kBFloat16:
      return convert_from<std::uint16_t>(source, target, to, count, bfloat16_value);
    default:
      return convert_from<std::uint16_t>(source, target, to, count, float16_value);
  }
}

}  // namespace sluice
