#include "base/dtype.hpp"

#include "base/convert_avx2.hpp"
#include "base/error.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace sluice {
namespace {

struct Row {
  DType dtype;
  std::int64_t size;
  std::string_view name;
  std::string_view safetensors;
};

constexpr std::array<Row, 16> kRows{{
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
    {DType::kFloat8E8M0, 1, "float8_e8m0fnu", "F8_E8M0"},
}};

const Row& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

template <class T>
T load(const std::byte* source, std::int64_t index) {
  T value;
  std::memcpy(&value, source + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// Element types of convert_elements(). Their functions have no branches, so that compilers vectorise loops
// over them, and give the same results as the conversion instructions of x86, for NaN too.

/// `a` if `condition`, else `b`, by a mask: compilers make a branch of a conditional expression if one of its
/// operands is float arithmetic.
std::uint32_t choose(bool condition, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

struct Float32 {
  using Element = float;
  static float widen(float value) { return value; }
  static float narrow(float value) { return value; }
};

struct BFloat16 {
  using Element = std::uint16_t;
  static float widen(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  static std::uint16_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const bool is_nan = static_cast<std::int32_t>(bits & 0x7fffffffu) > 0x7f800000;
    return static_cast<std::uint16_t>(is_nan ? 0x7fc0u : rounded);
  }
};

struct Float16 {
  using Element = std::uint16_t;
  /// The exponent is rebiased by a product, which is exact and handles subnormals; infinity and NaN, whose
  /// product is at least 2^16, get the largest exponent back, and NaN its quiet bit.
  static float widen(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const float scaled = std::bit_cast<float>((bits & 0x7fffu) << 13) * 0x1p112f;
    const std::uint32_t special = scaled >= 0x1p16f ? 0x7f800000u : 0u;
    const std::uint32_t quiet = scaled > 0x1p16f ? 0x00400000u : 0u;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | quiet | sign);
  }
  static std::uint16_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const auto order = static_cast<std::int32_t>(magnitude);
    // Floats between 0.5 and 1 are 2^-24 apart, like float16's subnormals, so the sum is rounded to one of
    // these.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f);
    const std::uint32_t normal = ((magnitude + 0xfffu + ((magnitude >> 13) & 1u)) >> 13) - (112u << 10);
    const std::uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    const std::uint32_t finite = choose(order < 0x38800000, subnormal, normal);
    const std::uint32_t special = choose(order > 0x7f800000, nan, 0x7c00u);
    constexpr std::int32_t kRoundsToInfinity = 0x477ff000;
    return static_cast<std::uint16_t>(sign | choose(order >= kRoundsToInfinity, special, finite));
  }
};

/// Conversion of float64, rounded to float32 first, as in torch.
struct Float64 {
  using Element = double;
  static float widen(double value) { return static_cast<float>(value); }
  static double narrow(float value) { return value; }
};

template <class From, class To>
void convert(const std::byte* source, typename To::Element* __restrict target, std::int64_t begin,
             std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i)
    target[i] = To::narrow(From::widen(load<typename From::Element>(source, i)));
}

template <class From>
void convert_from(const std::byte* source, void* target, DType to, std::int64_t begin, std::int64_t end) {
  switch (to) {
    case DType::kFloat32:
      return convert<From, Float32>(source, static_cast<float*>(target), begin, end);
    case DType::kBFloat16:
      return convert<From, BFloat16>(source, static_cast<std::uint16_t*>(target), begin, end);
    case DType::kFloat64:
      return convert<From, Float64>(source, static_cast<double*>(target), begin, end);
    default:
      return convert<From, Float16>(source, static_cast<std::uint16_t*>(target), begin, end);
  }
}

/// Number of elements whose bits under `mask` are all ones.
template <class T>
std::int64_t count_all_ones(const void* source, std::int64_t count, T mask) {
  std::int64_t found = 0;
  const auto* const bytes = static_cast<const std::byte*>(source);
  for (std::int64_t i = 0; i < count; ++i) found += (load<T>(bytes, i) & mask) == mask ? 1 : 0;
  return found;
}

bool is_convertible(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16 ||
         dtype == DType::kFloat64;
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

bool is_convertible(DType from, DType to) { return is_convertible(from) && is_convertible(to); }

std::int64_t count_non_finite(const void* source, DType dtype, std::int64_t count) {
  switch (dtype) {  // tests for an exponent of ones; E4M3 has no infinity and one NaN, all ones
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
    case DType::kFloat8E8M0:
      return count_all_ones<std::uint8_t>(source, count, 0xffu);
    default:
      return 0;
  }
}

std::uint16_t bfloat16_bits(float value) { return BFloat16::narrow(value); }
float bfloat16_value(std::uint16_t bits) { return BFloat16::widen(bits); }

void convert_elements(const void* source, DType from, void* target, DType to, std::int64_t count) {
  SLUICE_ASSERT(is_convertible(from, to), "no conversion from {} to {}", name_of(from), name_of(to));
  if (from == to) {
    std::memcpy(target, source, static_cast<std::size_t>(count * size_of(from)));
    return;
  }
  const auto* const bytes = static_cast<const std::byte*>(source);
  const std::int64_t done = convert_with_avx2(bytes, from, target, to, count);
  switch (from) {
    case DType::kFloat32:
      return convert_from<Float32>(bytes, target, to, done, count);
    case DType::kBFloat16:
      return convert_from<BFloat16>(bytes, target, to, done, count);
    case DType::kFloat64:
      return convert_from<Float64>(bytes, target, to, done, count);
    default:
      return convert_from<Float16>(bytes, target, to, done, count);
  }
}

}  // namespace sluice
