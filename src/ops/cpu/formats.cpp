#include "ops/cpu/formats.hpp"

#include "ops/arithmetic/formats.hpp"
#include "ops/cpu/kernel.hpp"

namespace sluice::ops::cpu::optimizer {

SLUICE_VECTOR_CLONES void draw(std::uint64_t key, std::int64_t begin, std::int64_t n, std::uint32_t* out) {
  arithmetic::draw(key, begin, n, out);
}

SLUICE_VECTOR_CLONES void read_bfloat16(const std::uint16_t* from, std::int64_t n, float* to) {
  arithmetic::read_bfloat16(from, n, to);
}

SLUICE_VECTOR_CLONES void write_bfloat16(const float* from, std::int64_t n, std::uint16_t* to) {
  arithmetic::write_bfloat16(from, n, to);
}

SLUICE_VECTOR_CLONES void write_weights_stochastically(const float* from, const std::uint32_t* draws,
                                                       std::int64_t n, std::uint16_t* to) {
  arithmetic::write_weights_stochastically(from, draws, n, to);
}

SLUICE_VECTOR_CLONES void write_moment_stochastically(const float* from, const std::uint32_t* draws,
                                                      std::int64_t n, std::uint16_t* to) {
  arithmetic::write_moment_stochastically(from, draws, n, to);
}

SLUICE_VECTOR_CLONES void read_master32(const std::uint16_t* weights, const std::int16_t* rest,
                                        std::int64_t n, float* to) {
  arithmetic::read_master32(weights, rest, n, to);
}

SLUICE_VECTOR_CLONES void write_master32(const float* from, std::int64_t n, std::uint16_t* weights,
                                         std::int16_t* rest) {
  arithmetic::write_master32(from, n, weights, rest);
}

SLUICE_VECTOR_CLONES void read_master24(const std::uint16_t* weights, const std::int8_t* rest, std::int64_t n,
                                        float* to) {
  arithmetic::read_master24(weights, rest, n, to);
}

SLUICE_VECTOR_CLONES void write_master24(const float* from, const std::uint32_t* draws, std::int64_t n,
                                         std::uint16_t* weights, std::int8_t* rest) {
  arithmetic::write_master24(from, draws, n, weights, rest);
}

SLUICE_VECTOR_CLONES void read_first_codes(const std::int8_t* codes, const float* scales, std::int64_t n,
                                           float* to) {
  arithmetic::read_first_codes(codes, scales, n, to);
}

SLUICE_VECTOR_CLONES void write_first_codes(const float* from, std::int64_t n, std::int8_t* codes,
                                            float* scales) {
  arithmetic::find_scales(from, n, scales);
  arithmetic::write_first_codes(from, n, codes, scales);
}

SLUICE_VECTOR_CLONES void read_root_codes(const std::uint8_t* codes, const float* scales, std::int64_t n,
                                          float* to) {
  arithmetic::read_root_codes(codes, scales, n, to);
}

SLUICE_VECTOR_CLONES void write_root_codes(const float* from, std::int64_t n, std::uint8_t* codes,
                                           float* scales) {
  arithmetic::find_scales(from, n, scales);
  arithmetic::write_root_codes(from, n, codes, scales);
}

}  // namespace sluice::ops::cpu::optimizer
