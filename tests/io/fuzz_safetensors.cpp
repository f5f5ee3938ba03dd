// libFuzzer target: any header, with any length of file, either parses or throws Error(kBadData).
//
//   fuzz_safetensors -max_total_time=60 tests/io/corpus_safetensors
//
// The first byte of an input says how many bytes of data follow the header.

#include "base/error.hpp"
#include "io/safetensors.hpp"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view header(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::int64_t file_bytes = 8 + static_cast<std::int64_t>(header.size()) + data[0];
  try {
    std::int64_t end = 8 + static_cast<std::int64_t>(header.size());
    for (const sluice::SafetensorsEntry& entry :
         sluice::parse_safetensors_header(header, file_bytes, "fuzz").entries) {
      if (entry.begin != end) std::abort();
      end += entry.bytes;
    }
    if (end != file_bytes) std::abort();
  } catch (const sluice::Error& error) {
    if (error.code() != sluice::ExitCode::kBadData) std::abort();
  }
  return 0;
}
