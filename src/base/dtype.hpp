// Element types of tensors in files, arenas and messages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sluice {

/// Every element type that a safetensors file may hold; training uses float32 and bfloat16 alone.
enum class DType : std::uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kFloat64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kBool,
  kFloat8E4M3,
  kFloat8E5M2,
  kFloat8E8M0,  ///< a power of two, 2^(byte - 127); 255 is NaN
};

/// Bytes of one element.
[[nodiscard]] std::int64_t size_of(DType dtype);

/// Name of an element type in job files and manifests: "float32", "bfloat16", …
[[nodiscard]] std::string_view name_of(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);

/// Name of an element type in safetensors headers: "F32", "BF16", …
[[nodiscard]] std::string_view safetensors_name(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from_safetensors(std::string_view name);

/// Whether convert_elements() can convert between two types: both must be float32, bfloat16, float16 or
/// float64.
[[nodiscard]] bool is_convertible(DType from, DType to);

/// Converts `count` elements, rounding to nearest even; NaN stays NaN. `source` may have any alignment,
/// `target` is aligned to its element. Requires is_convertible(from, to); the buffers do not overlap.
void convert_elements(const void* source, DType from, void* target, DType to, std::int64_t count);

/// How many of `count` elements are infinite or NaN; 0 for integers. `source` may have any alignment.
[[nodiscard]] std::int64_t count_non_finite(const void* source, DType dtype, std::int64_t count);

/// Bits of a float32 rounded to bfloat16, to nearest even as in LibTorch; and the float32 of such bits.
[[nodiscard]] std::uint16_t bfloat16_bits(float value);
[[nodiscard]] float bfloat16_value(std::uint16_t bits);

}  // namespace sluice
