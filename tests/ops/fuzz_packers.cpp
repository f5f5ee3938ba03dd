// libFuzzer target: whatever the codes, scales and shape of a weight, the packers of products lay out the numbers
// that dequantise() makes of it, for any strip of its rows and of their columns.
//
//   fuzz_packers -max_total_time=60 tests/ops/corpus_packers
//
// An input is eight bytes of form and shape, and the codes and scales behind them, over again if they are too few.

#include "encoding/dequantise.hpp"
#include "ops/cpu/products/kernels.hpp"
#include "ops/cpu/products/packing.hpp"
#include "ops/cpu/tiles/layout.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::ops::cpu;

constexpr std::size_t kHead = 8;

/// Bytes of an input, over again from its beginning.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> input) : input_(input) {}
  std::uint8_t next() { return input_[at_++ % input_.size()]; }
  void fill(std::vector<std::byte>& bytes) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(next());
  }

 private:
  std::span<const std::uint8_t> input_;
  std::size_t at_ = 0;
};

Encoding form_of(std::uint8_t choice) {
  constexpr std::array kForms = {
      Encoding{.codes = Codes::kInt4, .scale_type = DType::kBFloat16, .block_rows = 1, .block_columns = 32},
      Encoding{.codes = Codes::kInt4, .scale_type = DType::kFloat32, .block_rows = 1, .block_columns = 24},
      Encoding{
          .codes = Codes::kFloat4E2M1, .scale_type = DType::kUInt8, .block_rows = 1, .block_columns = 32},
      Encoding{.codes = Codes::kFloat4E2M1,
               .scale_type = DType::kFloat8E4M3,
               .block_rows = 1,
               .block_columns = 16},
      Encoding{
          .codes = Codes::kInt8, .scale_type = DType::kFloat32, .block_rows = 1, .block_columns = 1 << 20},
      Encoding{
          .codes = Codes::kNormalFloat4, .scale_type = DType::kFloat32, .block_rows = 1, .block_columns = 64},
      Encoding{
          .codes = Codes::kFloat8E4M3, .scale_type = DType::kFloat32, .block_rows = 16, .block_columns = 48},
      Encoding{
          .codes = Codes::kBFloat16, .scale_type = DType::kFloat32, .block_rows = 1, .block_columns = 1}};
  return kForms[choice % kForms.size()];
}

void require_same(const std::vector<float>& a, const std::vector<float>& b) {
  if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) != 0) std::abort();
}

/// Packs both sides by a kernel of widened numbers, and compares them.
void compare(const products::ProductKernel& kernel, const products::Operand& coded,
             const products::Operand& plain, Range lines, Range depth) {
  const auto packed = [&](const products::Operand& side) {
    std::vector<float> to(
        static_cast<std::size_t>((lines.count() + products::kPackedAtOnce + kernel.columns) *
                                 (products::kDepth + products::kPackedAtOnce)));
    products::pack(kernel, side, products::OperandSide::kRight, lines, depth, to.data(),
                   {kernel.columns, kernel.columns, products::kDepth * kernel.columns});
    return to;
  };
  require_same(packed(coded), packed(plain));
}

#ifdef SLUICE_TILES
void compare_tiles(const products::Operand& coded, const products::Operand& plain, Range lines, Range depth) {
  const std::int64_t count = (lines.count() + tiles::kBlock - 1) / tiles::kBlock * tiles::kBlock;
  const std::int64_t depth_tiles = (depth.count() + tiles::kDepth - 1) / tiles::kDepth;
  const auto packed = [&](const products::Operand& side) {
    std::vector<tiles::Tile> to(static_cast<std::size_t>(count / tiles::kLines * depth_tiles));
    tiles::pack(side, products::OperandSide::kRight, lines.begin, count, depth.begin, depth_tiles, to.data());
    return to;
  };
  const std::vector<tiles::Tile> a = packed(coded), b = packed(plain);
  if (std::memcmp(a.data(), b.data(), a.size() * sizeof(tiles::Tile)) != 0) std::abort();
}
#endif

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size <= kHead) return 0;
  Bytes head({data, kHead}), bytes({data + kHead, size - kHead});
  Encoding encoding = form_of(head.next());
  encoding.rows = 1 + head.next() % 96;
  encoding.columns = 2 * (1 + head.next() % 200);
  if (encoding.block_columns > encoding.columns || encoding.codes == Codes::kBFloat16)
    encoding.block_columns = encoding.columns;
  encoding.scale_count = encoding.grid_rows() * encoding.grid_columns();
  std::vector<std::byte> codes(
      static_cast<std::size_t>(encoding.code_bytes(encoding.rows * encoding.columns)));
  std::vector<std::byte> scales(static_cast<std::size_t>(encoding.scale_bytes()));
  bytes.fill(codes);
  bytes.fill(scales);
  std::vector<std::uint16_t> numbers(static_cast<std::size_t>(encoding.rows * encoding.columns));
  dequantise(encoding, {0, encoding.rows * encoding.columns}, codes.data(), scales.data(), DType::kBFloat16,
             reinterpret_cast<std::byte*>(numbers.data()));

  const CodedRows rows{&encoding, 0, encoding.rows, codes.data(), scales.data()};
  if (!products::can_be_side({&rows, 1})) std::abort();  // their columns are even
  const products::Operand coded{nullptr, encoding.rows, encoding.columns, 0, 1, {&rows, 1}};
  const products::Operand plain{numbers.data(), encoding.rows, encoding.columns, encoding.columns, 1};
  const auto part_of = [&](std::int64_t count, std::int64_t most) {
    const std::int64_t begin = head.next() % count;
    return Range{begin, begin + 1 + head.next() % std::min(most, count - begin)};
  };
  const Range lines = part_of(encoding.rows, encoding.rows);
  const Range depth = part_of(encoding.columns, products::kDepth);
  compare(products::kAnyProcessor, coded, plain, lines, depth);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0) compare(products::kAvx2, coded, plain, lines, depth);
  if (__builtin_cpu_supports("avx512bw") != 0) compare(products::kAvx512, coded, plain, lines, depth);
#endif
#ifdef SLUICE_TILES
  if (__builtin_cpu_supports("avx512bw") != 0) compare_tiles(coded, plain, lines, {0, encoding.columns});
#endif
  return 0;
}
