// The arithmetic of our own kernels: each is a function of an index, which a GPU runs once for each, in any order. The
// same functions run as plain loops where they are tested. Internal to src/ops/device.
#pragma once

#include "base/random_bits.hpp"
#include "ops/arithmetic/element.hpp"
#include "ops/arithmetic/moments.hpp"
#include "ops/buffers/adafactor.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::ops::device::kernels {

/// Of a token. Its choices so far are few enough to look through again.
struct ChooseExperts {
  const float* probabilities;  ///< [T, experts]
  std::int64_t experts, choices;
  std::int64_t* chosen;  ///< [T, choices]

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
/// A bfloat16, by its bits.
SLUICE_ELEMENT float number(std::uint16_t bits) { return arithmetic::float_of(std::uint32_t{bits} << 16); }

/// `value` into what is float or the bits of a bfloat16.
SLUICE_ELEMENT void put_number(float value, float* to) { *to = value; }
SLUICE_ELEMENT void put_number(float value, std::uint16_t* to) { arithmetic::write_bfloat16(&value, 1, to); }

/// Of one element of x; T as below.
template <class T>
struct DropElement {
  const T* x;
  T* out;
  std::uint64_t key;  ///< of the stream of draws
  std::int64_t first;  ///< the first element's number in it
  float rate, scale;

  SLUICE_ELEMENT void operator()(std::int64_t i) const {
    const float drawn = unit_number(random_bits(key, static_cast<std::uint64_t>(first + i)));
    put_number(drawn < rate ? 0.0F : number(x[i]) * scale, out + i);
  }
};

/// Of a column. T is float or the bits of a bfloat16.
template <class T>
struct AddColumn {
  const T* rows;  ///< [count, width]
  const std::int64_t* ids;
  std::int64_t count, width, padding;
  float* table;
  std::int64_t stride;  ///< from a row of the table to the next

  SLUICE_ELEMENT void operator()(std::int64_t column) const {
    for (std::int64_t t = 0; t < count; ++t)
      if (ids[t] != padding) table[ids[t] * stride + column] += number(rows[t * width + column]);
  }
};

/// Of kCount elements of a run, where scales begin if they have some. Factors are AdamW's or Lion's.
template <std::int64_t kCount, class Factors>
struct UpdateMoments {
  UpdateRun run;
  UpdateFormats formats;
  Factors factors;

  SLUICE_ELEMENT void operator()(std::int64_t part) const {
    const std::int64_t begin = part * kCount, rest = run.count - begin;
    arithmetic::update_block<kCount>(run, formats, begin, rest < kCount ? rest : kCount, factors);
  }
};

/// Of one element.
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
  std::int64_t begin;  ///< the first one's place in its matrix
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
