#include "weights/checkpoint_files.hpp"

#include "base/error.hpp"

#include <unistd.h>

namespace sluice {

InputFile open_source(const std::filesystem::path& directory, const CheckpointFile& file) {
  InputFile source = InputFile::open(directory / file.name);
  if (source.size_bytes() != file.bytes)
    fail({ExitCode::kBadData, "weights.changed"},
         "{} has {} bytes, but had {} when its header was read: it was changed meanwhile",
         source.path().string(), source.size_bytes(), file.bytes);
  return source;
}

// Some kernels read into the cache what is examined, so each process looks at other places: ranks of one
// machine would take each other's looks for a cached file.
bool is_mostly_cached(const InputFile& file) {
  constexpr int kPlaces = 16;
  const std::int64_t step = file.size_bytes() / kPlaces;
  const std::int64_t first = step == 0 ? 0 : std::int64_t{::getpid()} * 7919 * InputFile::kBlockBytes % step;
  file.advise_random();
  int cached = 0;
  for (int i = 0; i < kPlaces; ++i)
    if (file.is_cached(first + step * i)) ++cached;
  return cached > kPlaces / 2;
}

}  // namespace sluice
