// libFuzzer target: any text either is a weight map, whose files all lie in the model directory, or throws
// Error(kBadData).
//
//   fuzz_weight_map -max_total_time=60 tests/weights/corpus_weight_map

#include "base/error.hpp"
#include "weights/weight_map.hpp"

#include <cstdlib>
#include <filesystem>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const sluice::WeightMap map =
        sluice::parse_weight_map({reinterpret_cast<const char*>(data), size}, "fuzz");
    for (const std::string& file : map.files) {
      const std::filesystem::path path = std::filesystem::path("model") / file;
      if (*path.lexically_normal().begin() != "model" || path == "model") std::abort();
    }
    for (const auto& [tensor, file] : map.tensors)
      if (file < 0 || file >= std::ssize(map.files)) std::abort();
  } catch (const sluice::Error& error) {
    if (error.code() != sluice::ExitCode::kBadData) std::abort();
  }
  return 0;
}
