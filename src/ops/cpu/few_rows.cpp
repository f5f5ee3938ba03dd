#include "ops/cpu/few_rows.hpp"

#include "base/round.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/cpu/lanes.hpp"
#include "ops/cpu/level.hpp"
#include "ops/cpu/row_products.hpp"
#include "ops/cpu/tiles/vectors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::ops::cpu {
namespace {

/// A line of weights is as many elements as fill this number of float vectors. Two bfloat16 numbers share a
/// 32-bit word: the lower half is the first number, and the word read as a float is the second one up to bits
/// beyond its precision.
template <class T>
constexpr std::int64_t kLineVectors = std::is_same_v<T, float> ? 1 : 2;
template <class T>
constexpr std::int64_t kLine = kLanes* kLineVectors<T>;

// Vectors are passed by reference: the calling convention of a vector by value depends on the enabled
// instruction sets.
SLUICE_ELEMENT void read_line(const float* from, Lanes (&line)[1]) {
  std::memcpy(&line[0], from, sizeof(Lanes));
}
SLUICE_ELEMENT void read_line(const at::BFloat16* from, Lanes (&line)[2]) {
  LaneWords words;
  std::memcpy(&words, from, sizeof(words));
  const LaneWords lower = words << 16, upper = words & 0xffff0000U;
  std::memcpy(&line[0], &lower, sizeof(lower));
  std::memcpy(&line[1], &upper, sizeof(upper));
}

template <class T>
class LeftRows;
template <class T, std::int64_t kRows, std::int64_t kWeights>
void multiply_tile(const LeftRows<T>& left, std::int64_t first, const DenseRows<T>& weights, float* out);

/// Rows of a product's left side as floats, in lines in the order of line_of(), padded with zeros to whole
/// lines.
template <class T>
class LeftRows {
 public:
  LeftRows(const DenseRows<T>& rows, std::int64_t depth) : depth_(depth) {
    const auto line = static_cast<std::uint64_t>(kLine<T>);
    padded_ = static_cast<std::int64_t>(round_up(static_cast<std::uint64_t>(depth_), line));
    values_.resize(static_cast<std::size_t>(rows.count * padded_));
    for (std::int64_t row = 0; row < rows.count; ++row)
      lay_out(rows.data + row * rows.stride, depth_, values_.data() + row * padded_);
  }
  [[nodiscard]] const float* operator[](std::int64_t row) const { return values_.data() + row * padded_; }
  [[nodiscard]] std::int64_t depth() const { return depth_; }

  /// Computes the sums of rows [first, first + kRows) with weights [0, kWeights) into out[row * kWeights +
  /// weight].
  template <std::int64_t kRows, std::int64_t kWeights>
  void multiply(std::int64_t first, const DenseRows<T>& weights, float* out) const {
    multiply_tile<T, kRows, kWeights>(*this, first, weights, out);
  }

 private:
  static void lay_out(const T* row, std::int64_t depth, float* out) {
    constexpr std::int64_t kVectors = kLineVectors<T>;
    for (std::int64_t i = 0; i < depth; ++i) {
      const std::int64_t place = i % kLine<T>;
      out[i - place + place % kVectors * kLanes + place / kVectors] = kernel::load(row[i]);
    }
  }

  std::int64_t depth_, padded_ = 0;
  std::vector<float> values_;
};

/// Computes the sums of rows [first, first + kRows) with weights [0, kWeights) into sums[row * kWeights +
/// weight].
template <class T, std::int64_t kRows, std::int64_t kWeights>
SLUICE_VECTOR_CLONES void multiply_tile(const LeftRows<T>& left, std::int64_t first,
                                        const DenseRows<T>& weights, float* out) {
  Lanes sums[kRows][kWeights];
  for (auto& of_row : sums)
    for (Lanes& sum : of_row) sum = Lanes{};
  const auto add_line = [&](std::int64_t begin, const auto& weight_line) __attribute__((always_inline)) {
    Lanes lines[kWeights][kLineVectors<T>];
    for (std::int64_t w = 0; w < kWeights; ++w) read_line(weight_line(w), lines[w]);
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t v = 0; v < kLineVectors<T>; ++v) {
        Lanes row[1];
        read_line(left[first + r] + begin + v * kLanes, row);
        for (std::int64_t w = 0; w < kWeights; ++w) sums[r][w] += row[0] * lines[w][v];
      }
  };
  const std::int64_t depth = left.depth(), whole = depth - depth % kLine<T>;
  for (std::int64_t begin = 0; begin < whole; begin += kLine<T>)
    add_line(
        begin, [&](std::int64_t w) __attribute__((always_inline)) {
          const T* const line = weights.data + w * weights.stride + begin;
          __builtin_prefetch(line + kWeights * weights.stride);  // Fetches a line of the next tile.
          return line;
        });
  if (whole < depth) {
    T rest[kWeights][kLine<T>] = {};
    for (std::int64_t w = 0; w < kWeights; ++w)
      std::copy_n(weights.data + w * weights.stride + whole, depth - whole, rest[w]);
    add_line(
        whole, [&](std::int64_t w) __attribute__((always_inline)) { return &rest[w][0]; });
  }
  sums_of<kRows * kWeights>(&sums[0][0], out);
}

#ifdef SLUICE_TILES
SLUICE_VECTORS_BEGIN

/// Rows of a product's left side, read where they lie, for processors that multiply vectors of bfloat16.
class PlainRows {
 public:
  PlainRows(const DenseRows<at::BFloat16>& rows, std::int64_t depth)
      : data_(reinterpret_cast<const std::uint16_t*>(rows.data)), stride_(rows.stride), depth_(depth) {}

  /// Multiplies a tile as multiply_tile() does, with vectors of bfloat16.
  template <std::int64_t kRows, std::int64_t kWeights>
  SLUICE_TILES void multiply(std::int64_t first, const DenseRows<at::BFloat16>& weights, float* out) const {
    Lanes sums[kRows][kWeights];
    for (auto& of_row : sums)
      for (Lanes& sum : of_row) sum = Lanes{};
    const std::uint16_t* row = data_ + first * stride_;
    const auto* weight = reinterpret_cast<const std::uint16_t*>(weights.data);
    constexpr std::int64_t kLine = 32;
    for (std::int64_t left = depth_; left > 0; left -= kLine, row += kLine, weight += kLine) {
      if (left >= kLine)
        add_line<kRows, kWeights>(row, weight, weights.stride, sums,
                                  [](const std::uint16_t* from, __m512i& line)
                                      SLUICE_TILES { line = _mm512_loadu_si512(from); });
      else
        add_line<kRows, kWeights>(row, weight, weights.stride, sums,
                                  [=](const std::uint16_t* from, __m512i& line) SLUICE_TILES {
                                    line = _mm512_maskz_loadu_epi16(tiles::lowest_bits(left), from);
                                  });
    }
    sums_of<kRows * kWeights>(&sums[0][0], out);
  }

 private:
  template <std::int64_t kRows, std::int64_t kWeights, class Read>
  SLUICE_TILES __attribute__((always_inline)) inline void add_line(const std::uint16_t* rows,
                                                                   const std::uint16_t* weights,
                                                                   std::int64_t stride,
                                                                   Lanes (&sums)[kRows][kWeights],
                                                                   const Read& read) const {
    __m512i lines[kWeights];
    for (std::int64_t w = 0; w < kWeights; ++w) {
      read(weights + w * stride, lines[w]);
      __builtin_prefetch(weights + (kWeights + w) * stride);  // Fetches a row of the next tile.
    }
    for (std::int64_t r = 0; r < kRows; ++r) {
      __m512i row;
      read(rows + r * stride_, row);
      for (std::int64_t w = 0; w < kWeights; ++w)
        sums[r][w] = _mm512_dpbf16_ps(sums[r][w], reinterpret_cast<__m512bh>(row),
                                      reinterpret_cast<__m512bh>(lines[w]));
    }
  }

  const std::uint16_t* data_;
  std::int64_t stride_, depth_;
};

SLUICE_VECTORS_END
#endif

/// Calls f(left) with several blocks of rows in the form that this processor multiplies.
template <class T, class F>
void with_left(std::span<const DenseRows<T>> blocks, std::int64_t depth, F f) {
  const auto in_form = [&]<class Left>(const Left*) {
    std::vector<Left> left;
    for (const DenseRows<T>& rows : blocks) left.emplace_back(rows, depth);
    f(left);
  };
#ifdef SLUICE_TILES
  if constexpr (std::is_same_v<T, at::BFloat16>)
    if (has_tiles()) return in_form(static_cast<const PlainRows*>(nullptr));
#endif
  in_form(static_cast<const LeftRows<T>*>(nullptr));
}

/// Calls f(number, weights, multiply, T*) for parts of the weights of each range, which threads share; parts begin at
/// multiples of `quantum`. multiply(rows, begin) multiplies the rows of that range by its weights [begin, begin +
/// rows.count), which `rows` of type T holds, into `out`.
template <class F>
void share_products(const at::Tensor& out, const at::Tensor& a, std::span<const Range> ranges,
                    std::int64_t quantum, const F& f) {
  kernel::dispatch(a, [&]<class T>(T) {
    std::vector<DenseRows<T>> blocks;
    for (const Range& range : ranges) blocks.push_back(dense_rows<T>(a, range));
    with_left(std::span<const DenseRows<T>>(blocks), a.size(1), [&](const auto& left) {
      kernel::dispatch(out, [&]<class Out>(Out) {
        share_weights(std::ssize(ranges), out.size(1), quantum, a.size(1),
                      [&](std::size_t number, Range weights) {
                        const Range rows = ranges[number];
                        const auto multiply = [&](const DenseRows<T>& some, std::int64_t begin) {
                          multiply_range(left[number], rows.count(), some, 0, some.count,
                                         out_rows<Out>(out, rows.begin, begin));
                        };
                        f(number, weights, multiply, static_cast<T*>(nullptr));
                      });
      });
    });
  });
}

}  // namespace

bool is_few_rows_times_weight(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  return a.size(0) <= kFewRows && into == Into::kReplace && a.stride(1) == 1 && b.stride(0) == 1 &&
         out.stride(1) == 1;
}

void multiply_few_rows(const at::Tensor& out, const at::Tensor& a, std::span<const Range> ranges,
                       std::span<const at::Tensor> weights) {
  share_products(out, a, ranges, kWeightsAtOnce,
                 [&]<class T>(std::size_t number, Range some, const auto& multiply, T*) {
                   multiply(dense_rows<T>(weights[number], some), some.begin);
                 });
}

void multiply_few_rows(const at::Tensor& out, const at::Tensor& a, std::span<const Range> ranges,
                       const WriteRows& write) {
  constexpr std::int64_t kBytes =
      std::int64_t{16} * 1024;  // Bytes of a thread's rows, which its nearest cache keeps.
  const std::int64_t row_bytes = a.size(1) * a.element_size();
  const std::int64_t at_once =
      std::max<std::int64_t>(1, kBytes / row_bytes / kWeightsAtOnce) * kWeightsAtOnce;
  share_products(out, a, ranges, at_once,
                 [&]<class T>(std::size_t number, Range some, const auto& multiply, T*) {
                   std::vector<T> rows(static_cast<std::size_t>(at_once * a.size(1)));
                   for (std::int64_t begin = some.begin; begin < some.end; begin += at_once) {
                     const std::int64_t end = std::min(begin + at_once, some.end);
                     write(number, begin, end, rows.data());
                     multiply(DenseRows<T>{rows.data(), end - begin, a.size(1)}, begin);
                   }
                 });
}

template <class T>
void multiply_rows(const DenseRows<T>& rows, const DenseRows<T>& weights, std::int64_t depth, float* out) {
  with_left(std::span<const DenseRows<T>>(&rows, 1), depth, [&](const auto& left) {
    multiply_range(left.front(), rows.count, weights, 0, weights.count, OutRows<float>{out, weights.count});
  });
}
template void multiply_rows(const DenseRows<float>&, const DenseRows<float>&, std::int64_t, float*);
template void multiply_rows(const DenseRows<at::BFloat16>&, const DenseRows<at::BFloat16>&, std::int64_t,
                            float*);

}  // namespace sluice::ops::cpu
