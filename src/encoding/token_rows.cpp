#include "encoding/token_rows.hpp"

#include "base/round.hpp"
#include "encoding/dequantise.hpp"
#include "encoding/quantise.hpp"

namespace sluice {
namespace {

/// Elements of a row that share a scale.
constexpr std::int64_t kBlock = 128;

}  // namespace

TokenRows::TokenRows(std::int64_t width)
    : encoding_{.codes = Codes::kInt8,
                .scale_type = DType::kFloat32,
                .scale_count = divide_up(width, kBlock),
                .rows = 1,
                .columns = width,
                .block_rows = 1,
                .block_columns = kBlock},
      bytes_(encoding_.scale_bytes() +
             divide_up(width, std::int64_t{sizeof(float)}) * std::int64_t{sizeof(float)}) {}

void TokenRows::write(const float* values, std::byte* row) const {
  quantise_rows(encoding_, 1, values, row + encoding_.scale_bytes(), row);
}

void TokenRows::read(const std::byte* row, DType to, std::byte* values) const {
  dequantise(encoding_, {0, encoding_.columns}, row + encoding_.scale_bytes(), row, to, values);
}

}  // namespace sluice
