#include "ops/cpu/coded_rows.hpp"

#include "ops/cpu/coded_exact.hpp"
#include "ops/cpu/coded_int8.hpp"
#include "ops/cpu/few_rows.hpp"
#include "ops/cpu/level.hpp"
#include "ops/cpu/row_products.hpp"

#include <algorithm>
#include <cstddef>

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

/// Ranges of few rows, each with a matrix, and the place of their products.
struct CodedProducts {
  const at::Tensor &out, &a;
  std::span<const Range> ranges;
  std::span<const std::vector<CodedRows>> matrices;

  [[nodiscard]] const Encoding& encoding() const { return *matrices.front().front().encoding; }
};

/// Multiplies with all matrices, whose rows threads share. make_left(rows) lays rows of type T out.
template <class T, class MakeLeft>
void share_parts(const CodedProducts& all, const MakeLeft& make_left) {
  std::vector<decltype(make_left(DenseRows<T>{}))> left;
  for (const Range& range : all.ranges) left.push_back(make_left(dense_rows<T>(all.a, range)));
  kernel::dispatch(all.out, [&]<class Out>(Out) {
    share_weights(std::ssize(all.ranges), all.out.size(1), kRowsAtOnce, all.a.size(1),
                  [&](std::size_t number, Range weights) {
                    const Range rows = all.ranges[number];
                    multiply_parts(left[number], rows.count(), all.matrices[number], weights.begin,
                                   weights.end, out_rows<Out>(all.out, rows.begin, 0));
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
bool multiply_exactly(const CodedProducts& all) {
  share_parts<at::BFloat16>(all,
                            [&](const DenseRows<at::BFloat16>& rows) { return Left(rows, all.encoding()); });
  return true;
}

bool multiply_exactly([[maybe_unused]] const CodedProducts& all) {
  [[maybe_unused]] const Encoding& encoding = all.encoding();
  [[maybe_unused]] const bool is_in_lines = has_groups_of(encoding, 32);
  if (all.a.scalar_type() != at::kBFloat16) return false;
#ifdef SLUICE_TILES
  if (has_tiles()) {
    if (is_in_lines && encoding.codes == Codes::kInt8)
      return multiply_exactly<ExactRows<ExactForm::kBytes>>(all);
    if (is_in_lines) return multiply_exactly<ExactRows<ExactForm::kHalfBytes>>(all);
    return encoding.block_columns == 16 && has_groups_of(encoding, 16) && encoding.codes != Codes::kInt8 &&
           multiply_exactly<ExactRows<ExactForm::kHalfBytesInGroupsOf16>>(all);
  }
#endif
#ifdef SLUICE_CLONES
  if (is_in_lines && encoding.codes != Codes::kInt8 && level_here() >= Level::kAvx2)
    return multiply_exactly<Avx2ExactRows>(all);
#endif
  return false;
}

#if defined(__x86_64__)
template <template <Codes> class Rows, Codes kCodes>
bool multiply_rounded(const CodedProducts& all, std::int64_t unit) {
  kernel::dispatch(all.a, [&]<class T>(T) {
    share_parts<T>(all, [&](const DenseRows<T>& rows) { return Rows<kCodes>(rows, all.a.size(1), unit); });
  });
  return true;
}

template <template <Codes> class Rows>
bool multiply_rounded(const CodedProducts& all) {
  const Encoding& encoding = all.encoding();
  const bool is_in_16 = encoding.block_columns == 16 && encoding.codes != Codes::kInt8;
  const std::int64_t unit = is_in_16 ? 16 : 32;
  if (!has_groups_of(encoding, unit)) return false;
  if (encoding.codes == Codes::kInt8) return multiply_rounded<Rows, Codes::kInt8>(all, unit);
  if (encoding.codes == Codes::kInt4) return multiply_rounded<Rows, Codes::kInt4>(all, unit);
  if (encoding.codes == Codes::kFloat4E2M1) return multiply_rounded<Rows, Codes::kFloat4E2M1>(all, unit);
  return multiply_rounded<Rows, Codes::kNormalFloat4>(all, unit);
}
#endif

bool multiply_rounded([[maybe_unused]] const CodedProducts& all) {
#if defined(__x86_64__)
  if (level_here() >= Level::kVnni) return multiply_rounded<VnniRows>(all);
  if (level_here() >= Level::kAvx2) return multiply_rounded<Avx2Rows>(all);
#endif
  return false;
}

/// Whether all parts of all matrices have the form of the first one, so that one loop reads them.
bool are_alike(std::span<const std::vector<CodedRows>> matrices) {
  const Encoding& first = *matrices.front().front().encoding;
  return std::ranges::all_of(matrices, [&](const std::vector<CodedRows>& parts) {
    return !parts.empty() && std::ranges::all_of(parts, [&](const CodedRows& part) {
      const Encoding& one = *part.encoding;
      return one.codes == first.codes && one.block_columns == first.block_columns &&
             one.block_rows == first.block_rows;
    });
  });
}

}  // namespace

bool multiply_coded_rows(const at::Tensor& out, const at::Tensor& a, std::span<const Range> ranges,
                         std::span<const std::vector<CodedRows>> matrices, Products products) {
  if (matrices.front().empty() || !are_alike(matrices)) return false;
  const CodedProducts all{out, a, ranges, matrices};
  if (!have_codes_with_loops(all.encoding())) return false;
  if (products == Products::kInt8 && multiply_rounded(all)) return true;
  return multiply_exactly(all);
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
