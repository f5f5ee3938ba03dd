#include "weights/sampled_digest.hpp"

#include "base/bytes.hpp"
#include "base/digest.hpp"
#include "io/file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string sample_of(const fs::path& path) {
  constexpr std::int64_t kSampleBytes = 64 * kKiB;
  const InputFile file = InputFile::open(path);
  const std::int64_t size = file.size_bytes(), count = std::min(size, kSampleBytes);
  std::string text = fmt::format("{} {}", path.filename().string(), size);
  std::vector<std::byte> sample(static_cast<std::size_t>(count));
  for (const std::int64_t offset : {std::int64_t{0}, (size - count) / 2, size - count}) {
    file.read_at(offset, sample);
    text += fmt::format(" {}", digest_of(sample, 0).hex());
  }
  text += '\n';
  return text;
}

}  // namespace

std::string sampled_digest(const fs::path& directory) {
  if (directory.empty()) return "";
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory))
    if (entry.is_regular_file() && !entry.path().filename().string().starts_with("."))
      files.push_back(entry.path());
  std::ranges::sort(files);
  std::string samples;
  for (const fs::path& file : files) samples += sample_of(file);
  return digest_of(samples).hex();
}

}  // namespace sluice
