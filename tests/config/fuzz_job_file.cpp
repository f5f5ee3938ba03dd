// libFuzzer target: any text either is a job file, or is refused with Error(kBadConfig); any override with that or
// Error(kUsage).
//
//   fuzz_job_file -max_total_time=60 tests/config/corpus_job_file

#include "base/error.hpp"
#include "config/toml_source.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    static_cast<void>(sluice::parse_toml(text, "fuzz"));
  } catch (const sluice::Error& error) {
    if (error.code() != sluice::ExitCode::kBadConfig) std::abort();
  }
  try {
    static_cast<void>(sluice::parse_override("train.freeze=" + text));
  } catch (const sluice::Error& error) {
    if (error.code() != sluice::ExitCode::kBadConfig && error.code() != sluice::ExitCode::kUsage)
      std::abort();
  }
  return 0;
}
