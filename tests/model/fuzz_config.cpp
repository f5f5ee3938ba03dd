// libFuzzer target: any config.json either describes a model, whose units and shards add up, or throws
// Error(kBadData).
//
//   fuzz_config -max_total_time=60 tests/model/corpus_config

#include "base/error.hpp"
#include "model/architecture.hpp"
#include "shard/shard_plan.hpp"

#include <cstdlib>
#include <string_view>

namespace {

/// Layouts of absurdly many tensors would make the fuzzer slow, not the program wrong.
constexpr std::size_t kMaxTensors = 2000;

void cut(const sluice::ParameterManifest& manifest) {
  if (manifest.tensors().size() > kMaxTensors) return;
  const sluice::UnitLayouts layouts = sluice::make_unit_layouts(manifest);
  const sluice::ShardPlan plan(layouts, {3, 1});
  std::int64_t elements = 0;
  for (int rank = 0; rank < plan.world(); ++rank) elements += plan.arena_elements(rank);
  if (elements < manifest.parameter_count()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    cut(sluice::describe_model_text(text, "fuzz", sluice::DType::kBFloat16).manifest);
  } catch (const sluice::Error& error) {
    if (error.code() != sluice::ExitCode::kBadData) std::abort();
  }
  return 0;
}
