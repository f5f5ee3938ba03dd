#include "load/buffer_load.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/run_together.hpp"
#include "device/copy.hpp"
#include "weights/entry_reader.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace sluice {
namespace {

void read_buffer(EntryReader& reader, const CheckpointIndex& index, const MatchedEntry& matched, float* out) {
  const CheckpointEntry& entry = index.entries[static_cast<std::size_t>(matched.entry)];
  std::vector<std::byte> bytes(static_cast<std::size_t>(matched.count * size_of(entry.dtype)));
  reader.read(entry, {matched.entry_begin, matched.entry_begin + matched.count}, bytes);
  convert_elements(bytes.data(), entry.dtype, reinterpret_cast<std::byte*>(out), DType::kFloat32,
                   matched.count);
  for (std::int64_t i = 0; i < matched.count; ++i)
    if (!std::isfinite(out[i]))
      fail({ExitCode::kBadData, "weights.not_finite"}, "{}: element {} of {} is {}, expected a finite number",
           index.directory, matched.begin + i, printable(entry.name), out[i]);
}

}  // namespace

void load_buffers(Communicator& comm, const CheckpointIndex& index, const CheckpointMatch& match,
                  const std::filesystem::path& directory, const ShardArena& weights) {
  const UnitLayouts& layouts = weights.plan().layouts();
  if (layouts.buffers.empty()) return;
  const std::string bytes = share_from_root(comm, [&] {
    std::vector<float> values(static_cast<std::size_t>(layouts.buffer_elements()));
    EntryReader reader(index, directory);
    for (const MatchedEntry& matched : match.buffers)
      read_buffer(reader, index, matched,
                  values.data() + layouts.buffer_of(matched.tensor)->offset + matched.begin);
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  });
  copy_bytes(weights.buffers(), bytes.data(), std::ssize(bytes));
}

}  // namespace sluice
