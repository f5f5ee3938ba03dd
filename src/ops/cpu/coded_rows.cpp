#include "ops/cpu/coded_rows.hpp"

#include "ops/cpu/coded_exact.hpp"
#include "ops/cpu/coded_int8.hpp"
#include "ops/cpu/level.hpp"
#include "ops/cpu/row_products.hpp"

#include <algorithm>

namespace sluice::ops::cpu {
namespace {

/// Number of weight rows whose scales are read at a time.
constexpr std::int64_t kRowsAtOnce = 16;

/// Computes the products of all rows with weights [begin, end) of a matrix, counted over its parts.
template <class Left, class Out>
void multiply_parts(const Left& left, std::int64_t rows, std::span<const CodedRows> parts, std::int64_t begin,
                    std::int64_t end, const OutRows<Out>& out) {
  std::vector<float> scales;
  std::int64_t of_part = 0;
  for (const CodedRows& part : parts) {
    const std::int64_t part_end = std::min(end, of_part + part.count);
    for (std::int64_t at = std::max(begin, of_part); at < part_end; at += kRowsAtOnce) {
      const std::int64_t count = std::min(kRowsAtOnce, part_end - at);
      const CodedTile tile = left.tile_of(some_of(part, at - of_part, count), scales);
      multiply_range(left, rows, tile, 0, count, OutRows<Out>{out.data + at, out.stride});
    }
    of_part += part.count;
  }
}

/// Multiplies with all parts; threads share their rows.
template <class Left>
void share_parts(const Left& left, const at::Tensor& out, std::int64_t depth,
                 std::span<const CodedRows> parts) {
  kernel::dispatch(out, [&]<class Out>(Out) {
    const std::int64_t count = out.size(1);
    at::parallel_for(0, divide_up(count, kRowsAtOnce), kernel::grain(kRowsAtOnce * depth),
                     [&](std::int64_t first, std::int64_t last) {
                       multiply_parts(left, out.size(0), parts, first * kRowsAtOnce,
                                      std::min(last * kRowsAtOnce, count),
                                      OutRows<Out>{out.data_ptr<Out>(), out.stride(0)});
                     });
  });
}

/// Whether rows have scales of their own, in groups of `columns` columns or a multiple of them, and begin at
/// whole bytes.
bool has_groups_of(const Encoding& encoding, std::int64_t columns) {
  const bool is_in_groups = encoding.block_columns % columns == 0 || encoding.grid_columns() == 1;
  return encoding.block_rows == 1 && is_in_groups && encoding.columns * bits_of(encoding.codes) % 8 == 0;
}

bool have_codes_with_loops(const Encoding& encoding) {
  return encoding.codes != Codes::kFloat8E4M3 && encoding.codes != Codes::kBFloat16;
}

template <class Left>
bool multiply_exactly(const at::Tensor& out, const at::Tensor& a, std::span<const CodedRows> parts) {
  const DenseRows<at::BFloat16> rows{a.data_ptr<at::BFloat16>(), a.size(0), a.stride(0)};
  share_parts(Left(rows, *parts.front().encoding), out, a.size(1), parts);
  return true;
}

bool multiply_exactly([[maybe_unused]] const at::Tensor& out, const at::Tensor& a,
                      std::span<const CodedRows> parts) {
  const Encoding& encoding = *parts.front().encoding;
  [[maybe_unused]] const bool is_in_lines = has_groups_of(encoding, 32);
  if (a.scalar_type() != at::kBFloat16) return false;
#ifdef SLUICE_TILES
  if (has_tiles()) {
    if (is_in_lines && encoding.codes == Codes::kInt8)
      return multiply_exactly<ExactRows<ExactForm::kBytes>>(out, a, parts);
    if (is_in_lines) return multiply_exactly<ExactRows<ExactForm::kHalfBytes>>(out, a, parts);
    return encoding.block_columns == 16 && has_groups_of(encoding, 16) && encoding.codes != Codes::kInt8 &&
           multiply_exactly<ExactRows<ExactForm::kHalfBytesInGroupsOf16>>(out, a, parts);
  }
#endif
#ifdef SLUICE_CLONES
  if (is_in_lines && encoding.codes != Codes::kInt8 && level_here() >= Level::kAvx2)
    return multiply_exactly<Avx2ExactRows>(out, a, parts);
#endif
  return false;
}

#if defined(__x86_64__)
template <template <Codes> class Rows, Codes kCodes>
bool multiply_rounded(const at::Tensor& out, const at::Tensor& a, std::span<const CodedRows> parts,
                      std::int64_t unit) {
  kernel::dispatch(a, [&]<class T>(T) {
    const DenseRows<T> rows{a.data_ptr<T>(), a.size(0), a.stride(0)};
    share_parts(Rows<kCodes>(rows, a.size(1), unit), out, a.size(1), parts);
  });
  return true;
}

template <template <Codes> class Rows>
bool multiply_rounded(const at::Tensor& out, const at::Tensor& a, std::span<const CodedRows> parts) {
  const Encoding& encoding = *parts.front().encoding;
  const bool is_in_16 = encoding.block_columns == 16 && encoding.codes != Codes::kInt8;
  const std::int64_t unit = is_in_16 ? 16 : 32;
  if (!has_groups_of(encoding, unit)) return false;
  if (encoding.codes == Codes::kInt8) return multiply_rounded<Rows, Codes::kInt8>(out, a, parts, unit);
  if (encoding.codes == Codes::kInt4) return multiply_rounded<Rows, Codes::kInt4>(out, a, parts, unit);
  if (encoding.codes == Codes::kFloat4E2M1)
    return multiply_rounded<Rows, Codes::kFloat4E2M1>(out, a, parts, unit);
  return multiply_rounded<Rows, Codes::kNormalFloat4>(out, a, parts, unit);
}
#endif

bool multiply_rounded([[maybe_unused]] const at::Tensor& out, [[maybe_unused]] const at::Tensor& a,
                      [[maybe_unused]] std::span<const CodedRows> parts) {
#if defined(__x86_64__)
  if (level_here() >= Level::kVnni) return multiply_rounded<VnniRows>(out, a, parts);
  if (level_here() >= Level::kAvx2) return multiply_rounded<Avx2Rows>(out, a, parts);
#endif
  return false;
}

/// Whether all parts have the form of the first one, so that one loop reads them.
bool are_alike(std::span<const CodedRows> parts) {
  return std::ranges::all_of(parts, [&](const CodedRows& part) {
    const Encoding &one = *part.encoding, &first = *parts.front().encoding;
    return one.codes == first.codes && one.block_columns == first.block_columns &&
           one.block_rows == first.block_rows;
  });
}

}  // namespace

bool multiply_coded_rows(const at::Tensor& out, const at::Tensor& a, std::span<const CodedRows> parts,
                         Products products) {
  if (parts.empty() || !are_alike(parts) || !have_codes_with_loops(*parts.front().encoding)) return false;
  if (products == Products::kInt8 && multiply_rounded(out, a, parts)) return true;
  return multiply_exactly(out, a, parts);
}

std::string_view exact_forms() {
  if (has_tiles()) return "INT4, MXFP4, NVFP4, NF4 and int8";
#ifdef SLUICE_CLONES
  if (level_here() >= Level::kAvx2) return "INT4, MXFP4 and NF4";
#endif
  return "";
}

std::string_view int8_means() {
  return level_here() >= Level::kVnni ? "VNNI" : level_here() >= Level::kAvx2 ? "AVX2" : "";
}

}  // namespace sluice::ops::cpu
