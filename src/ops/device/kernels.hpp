// The arithmetic of the project's own kernels: each kernel is a function of an index, which a GPU calls once
// for each index, in any order. Tests run the same functions as plain loops. Internal to src/ops/device.
#pragma once

#include "base/random.hpp"
#include "ops/arithmetic/element.hpp"
#include "ops/arithmetic/moments.hpp"
#include "ops/buffers/adafactor.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::ops::device::kernels {

/// Kernel that chooses the experts of one token. A token has few choices, so its earlier choices are searched
/// one by one.
struct ChooseExperts {
  const float* probabilities;  ///< Scores of each token's experts, [T, experts].
  std::int64_t experts, choices;
  std::int64_t* chosen;  ///< Output: indices of the chosen experts, [T, choices].

  SLUICE_ELEMENT void operator()(std::int64_t token) const {
    const float* const row = probabilities + token * experts;
    std::int64_t* const own = chosen + token * choices;
    for (std::int64_t slot = 0; slot < choices; ++slot) {
      std::int64_t best = -1;
      for (std::int64_t e = 0; e < experts; ++e)
        if (!is_among(own, slot, e) && (best < 0 || is_better(row[e], row[best]))) best = e;
      own[slot] = best;
    }
  }

  SLUICE_ELEMENT static bool is_among(const std::int64_t* list, std::int64_t count, std::int64_t number) {
    for (std::int64_t i = 0; i < count; ++i)
      if (list[i] == number) return true;
    return false;
  }
  SLUICE_ELEMENT static bool is_better(float p, float than) { return p > than || (than != than && p == p); }
};

SLUICE_ELEMENT float number(float value) { return value; }
/// Converts a bfloat16, given as its bits, to float32.
SLUICE_ELEMENT float number(std::uint16_t bits) { return arithmetic::float_of_bfloat16(bits); }

/// Writes `value` to a float, or to the bits of a bfloat16.
SLUICE_ELEMENT void put_number(float value, float* to) { *to = value; }
SLUICE_ELEMENT void put_number(float value, std::uint16_t* to) { arithmetic::write_bfloat16(&value, 1, to); }

/// Kernel that applies dropout to one element of x. T is float or the bits of a bfloat16.
template <class T>
struct DropElement {
  const T* x;
  T* out;
  std::uint64_t key;   ///< Key of the random stream of the dropout.
  std::int64_t first;  ///< Number of the first element in the random stream.
  float rate, scale;

  SLUICE_ELEMENT void operator()(std::int64_t i) const {
    const float drawn = open_unit_number(random_bits(key, static_cast<std::uint64_t>(first + i)));
    put_number(drawn < rate ? 0.0F : number(x[i]) * scale, out + i);
  }
};

/// Kernel that adds expert rows to one element of `sums`.
template <class T>
struct AddExpertRows {
  const T* rows;                    ///< Rows that experts returned, [count, width].
  const std::int32_t* row_of_slot;  ///< Row of each slot, [N, choices].
  const float* weights;             ///< Weight of each slot, [N, choices], or null.
  std::int64_t choices, width;
  float* sums;  ///< Sums by token, [N, width].

  SLUICE_ELEMENT void operator()(std::int64_t i) const {
    const std::int64_t token = i / width, column = i - token * width;
    float sum = sums[i];
    for (std::int32_t slot = next(token, -1); slot >= 0; slot = next(token, row_of_slot[slot])) {
      const float value = number(rows[row_of_slot[slot] * width + column]);
      sum += weights == nullptr ? value : value * rounded(weights[slot]);
    }
    sums[i] = sum;
  }

 private:
  /// Returns the slot of the token's next row after `row`, or -1 if there is none. A token has few choices.
  SLUICE_ELEMENT std::int32_t next(std::int64_t token, std::int32_t row) const {
    std::int32_t best = -1;
    for (std::int64_t slot = token * choices; slot < (token + 1) * choices; ++slot)
      if (row_of_slot[slot] > row && (best < 0 || row_of_slot[slot] < row_of_slot[best]))
        best = static_cast<std::int32_t>(slot);
    return best;
  }
  SLUICE_ELEMENT static float rounded(float weight) {
    T out;
    put_number(weight, &out);
    return number(out);
  }
};

/// Kernel that adds rows to one column of a table. T is float or the bits of a bfloat16.
template <class T>
struct AddColumn {
  const T* rows;  ///< Rows to add, [count, width].
  const std::int64_t* ids;
  std::int64_t count, width, padding;
  float* table;
  std::int64_t stride;  ///< Elements from a row of the table to the next one.

  SLUICE_ELEMENT void operator()(std::int64_t column) const {
    for (std::int64_t t = 0; t < count; ++t)
      if (ids[t] != padding) table[ids[t] * stride + column] += number(rows[t * width + column]);
  }
};

/// Kernel that updates one element of a run without scales. `Factors` are the factors of an optimizer in
/// arithmetic/moments.hpp.
template <class Factors>
struct UpdateElement {
  UpdateRun run;
  UpdateFormats formats;
  Factors factors;

  SLUICE_ELEMENT void operator()(std::int64_t i) const {
    arithmetic::update_block<1>(run, formats, i, 1, factors);
  }
};

/// Kernel that updates kStateBlock elements that share scales, one per thread: each thread reads its element,
/// all find the scales together, each thread writes its element.
template <class Factors>
struct UpdateTogether {
  UpdateRun run;
  UpdateFormats formats;
  Factors factors;

  class Part {
   public:
    SLUICE_ELEMENT Part(const UpdateTogether& all, std::int64_t i)
        : block_(all.run, all.formats, i, 1, Factors::kMoments) {
      arithmetic::update(block_, all.factors);
    }
    [[nodiscard]] SLUICE_ELEMENT std::int32_t first_magnitude() const { return block_.first_magnitude(); }
    [[nodiscard]] SLUICE_ELEMENT std::int32_t second_magnitude() const { return block_.second_magnitude(); }
    SLUICE_ELEMENT void set_scales(std::int32_t first, std::int32_t second) const {
      block_.set_scales(first, second);
    }
    SLUICE_ELEMENT void save() { block_.save_numbers(); }

   private:
    arithmetic::OpenBlock<1> block_;
  };
};

/// Updates the elements from `begin` to the end of a run, which are fewer than a block that shares scales.
template <class Factors>
struct UpdateRest {
  UpdateRun run;
  UpdateFormats formats;
  Factors factors;
  std::int64_t begin;

  SLUICE_ELEMENT void operator()(std::int64_t) const {
    arithmetic::update_block<kStateBlock>(run, formats, begin, run.count - begin, factors);
  }
};

/// Kernel that reads one element's master weight as float32.
struct ReadMaster {
  std::byte *weights, *master;
  MasterFormat format;
  float* out;

  SLUICE_ELEMENT void operator()(std::int64_t i) const {
    const auto* const rounded = arithmetic::at_element<std::uint16_t>(weights, i);
    switch (format) {
      case MasterFormat::kFloat32:
        return arithmetic::read_master32(rounded, arithmetic::at_element<std::int16_t>(master, i), 1,
                                         out + i);
      case MasterFormat::k24Bit:
        return arithmetic::read_master24(rounded, arithmetic::at_element<std::int8_t>(master, i), 1, out + i);
      case MasterFormat::kNone:
        return arithmetic::read_bfloat16(rounded, 1, out + i);
    }
  }
};

struct WriteMaster {
  std::byte *weights, *master;
  MasterFormat format;
  std::uint64_t draws;
  std::int64_t begin;  ///< Index of the first element in its matrix.
  const float* values;

  SLUICE_ELEMENT void operator()(std::int64_t i) const {
    auto* const rounded = arithmetic::at_element<std::uint16_t>(weights, i);
    std::uint32_t drawn = 0;
    if (format != MasterFormat::kFloat32) arithmetic::draw(draws, begin + i, 1, &drawn);
    switch (format) {
      case MasterFormat::kFloat32:
        return arithmetic::write_master32(values + i, 1, rounded,
                                          arithmetic::at_element<std::int16_t>(master, i));
      case MasterFormat::k24Bit:
        return arithmetic::write_master24(values + i, &drawn, 1, rounded,
                                          arithmetic::at_element<std::int8_t>(master, i));
      case MasterFormat::kNone:
        return arithmetic::write_weights_stochastically(values + i, &drawn, 1, rounded);
    }
  }
};

}  // namespace sluice::ops::device::kernels
