#include "weights/copy_agreement.hpp"

#include "base/digest.hpp"
#include "base/error.hpp"
#include "base/range.hpp"
#include "base/text.hpp"
#include "comm/ranks_text.hpp"
#include "comm/run_together.hpp"
#include "weights/checkpoint_files.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace sluice {
namespace {

/// Most tensors of a file that are compared: two revisions of a model differ in most tensors, so a few blocks
/// tell them apart, and cost little time on a disk that seeks.
constexpr std::size_t kTensorsOfFile = 64;

/// Ranges of a file that tensors and scales take, in the file's order.
using Parts = std::vector<Range>;

std::vector<Parts> parts_by_file(const CheckpointIndex& index) {
  std::vector<Parts> files(index.files.size());
  const auto add = [&](int file, std::int64_t begin, std::int64_t bytes) {
    if (bytes > 0) files[static_cast<std::size_t>(file)].push_back({begin, begin + bytes});
  };
  for (const CheckpointEntry& entry : index.entries) add(entry.file, entry.begin, entry.bytes);
  for (const Encoding& encoding : index.encodings)
    add(encoding.scale_file, encoding.scale_begin, encoding.own_scale_bytes());
  for (Parts& parts : files) std::ranges::sort(parts, {}, &Range::begin);
  return files;
}

Digest digest_range(const InputFile& file, std::int64_t begin, std::int64_t bytes) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(bytes));
  file.read_at(begin, buffer);
  return digest_of(buffer, static_cast<std::uint64_t>(begin));
}

/// Digest of the header, which ends where the first tensor begins, and of the middles of some tensors, evenly
/// chosen.
Digest digest_samples(const InputFile& file, const Parts& parts) {
  file.advise_random();
  Digest sum = digest_range(file, 0, parts.empty() ? file.size_bytes() : parts.front().begin);
  const std::size_t count = std::min(parts.size(), kTensorsOfFile);
  for (std::size_t i = 0; i < count; ++i) {
    const Range& part = parts[i * parts.size() / count];
    const std::int64_t bytes = std::min(part.count(), InputFile::kBlockBytes);
    sum += digest_range(file, part.begin + (part.count() - bytes) / 2, bytes);
  }
  return sum;
}

/// Digests of the files, a line of hexadecimal digits each.
std::string digest_files(const CheckpointIndex& index, const std::filesystem::path& directory) {
  const std::vector<Parts> parts = parts_by_file(index);
  std::string lines;
  for (std::size_t i = 0; i < index.files.size(); ++i)
    lines += digest_samples(open_source(directory, index.files[i]), parts[i]).hex() + "\n";
  return lines;
}

/// Line of file number `file` in the result of digest_files().
std::string_view line_of(std::string_view lines, std::size_t file) {
  const std::size_t width = lines.find('\n') + 1;
  return lines.substr(file * width, width);
}

void refuse_difference(const CheckpointIndex& index, const std::filesystem::path& directory,
                       const std::vector<std::string>& digests, std::span<const int> readers) {
  const auto of_rank = [&](int rank) -> const std::string& {
    return digests[static_cast<std::size_t>(rank)];
  };
  std::vector<std::string> differences;
  for (std::size_t file = 0; file < index.files.size(); ++file) {
    std::vector<int> others;
    for (const int rank : readers)
      if (line_of(of_rank(rank), file) != line_of(of_rank(readers.front()), file)) others.push_back(rank);
    if (!others.empty())
      differences.push_back(fmt::format("{} on {}", index.files[file].name, ranks_text(std::move(others))));
  }
  if (!differences.empty())
    fail({ExitCode::kInternal, "weights.copies_differ"},
         "{}: {} {} not the same as on rank {}:{}\n  Likely cause: the machines have different "
         "revisions of the model. load.readers = \"rank0\" takes all of it from rank 0's",
         directory.string(), counted(std::ssize(differences), "file"), is_or_are(std::ssize(differences)),
         readers.front(), lines_of_some(differences, 20));
}

}  // namespace

void agree_on_source(Communicator& comm, const CheckpointIndex& index, const std::filesystem::path& directory,
                     std::span<const int> readers) {
  if (readers.size() < 2) return;
  const bool reads = std::ranges::find(readers, comm.rank()) != readers.end();
  std::string own;
  run_together(comm, [&] {
    if (reads) own = digest_files(index, directory);
  });
  refuse_difference(index, directory, comm.all_gather_text(own), readers);
}

}  // namespace sluice
