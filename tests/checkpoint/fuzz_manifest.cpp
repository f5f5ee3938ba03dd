// libFuzzer target: any content of a saved step's manifest either parses, to entries that lie in their files
// and a step that can be written again, or throws Error(kBadData).
//
//   fuzz_manifest -max_total_time=60 tests/checkpoint/corpus_manifest
//
// The input is the content; its digest is made here, or nothing behind it would ever be reached.

#include "base/digest.hpp"
#include "base/error.hpp"
#include "checkpoint/saved_step.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  const std::string digest = sluice::digest_of(content).hex();
  const std::string text = "{\"content\":" + std::string(content) + ",\"digest\":\"" + digest + "\"}\n";
  try {
    const sluice::SavedStep step = sluice::parse_manifest(text, "fuzz");
    for (const sluice::SavedFile& file : step.files)
      for (const sluice::SavedEntry& entry : file.entries)
        if (entry.offset < 0 || entry.bytes() < 0 || entry.offset > file.bytes - entry.bytes()) std::abort();
    static_cast<void>(sluice::parse_manifest(sluice::to_manifest(step), "written again"));
  } catch (const sluice::Error& error) {
    if (error.code() != sluice::ExitCode::kBadData) std::abort();
  }
  return 0;
}
