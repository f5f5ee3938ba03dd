#include "decoder/rotary_tables.hpp"

#include "decoder/rotary_frequencies.hpp"

namespace sluice {
namespace {

ops::RotaryTable make_table(const RotaryConfig& rotary, std::int64_t positions, at::Device device) {
  if (rotary.dim == 0) return {};
  return ops::make_rotary_table(
      positions, rotary_frequencies(rotary), rotary.magnitude,
      rotary.interleaved ? ops::RotaryLayout::kInterleaved : ops::RotaryLayout::kHalves, device);
}

ops::RotaryTable rows_of(const ops::RotaryTable& table, const at::Tensor& positions) {
  return table.cos.defined() ? ops::rotary_rows(table, positions) : table;
}

}  // namespace

RotaryTables make_rotary_tables(const ModelConfig& config, std::int64_t positions, at::Device device) {
  const ops::RotaryTable full = make_table(config.rotary, positions, device);
  return {full, config.sliding_rotary ? make_table(*config.sliding_rotary, positions, device) : full};
}

RotaryTables rows_of(const RotaryTables& tables, const at::Tensor& positions) {
  return {rows_of(tables.full, positions), rows_of(tables.sliding, positions)};
}

at::Tensor turned(const at::Tensor& x, const ops::RotaryTable& table) {
  return table.cos.defined() ? ops::apply_rotary(x, table) : x;
}

}  // namespace sluice
