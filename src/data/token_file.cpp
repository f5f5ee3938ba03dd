#include "data/token_file.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr const char* kDataset = "tokens";

hdf5::Dataset open_tokens(const hdf5::File& file) {
  if (!file.exists("/tokens"))
    fail(ExitCode::kBadData, "{} has no dataset '{}'; it holds: {}", file.name(), kDataset,
         printable(join_some(file.children("/"))));
  hdf5::Dataset tokens = file.dataset("/tokens");
  if (!tokens.is_integer())
    fail(ExitCode::kBadData, "the dataset '{}' of {} does not hold integers; token ids are whole numbers",
         kDataset, file.name());
  return tokens;
}

std::int64_t stream_sequences(const hdf5::File& file, std::int64_t tokens, std::int64_t length) {
  if (tokens < length + 1)
    fail(ExitCode::kBadData,
         "the dataset '{}' of {} has {} tokens; data.sequence_length = {} needs at least {}", kDataset,
         file.name(), tokens, length, length + 1);
  return (tokens - 1) / length;
}

std::int64_t row_sequences(const hdf5::File& file, std::int64_t rows, std::int64_t width,
                           std::int64_t length) {
  if (rows == 0) fail(ExitCode::kBadData, "the dataset '{}' of {} has no rows", kDataset, file.name());
  if (width != length + 1)
    fail(ExitCode::kBadData,
         "the dataset '{}' of {} has rows of {} tokens, which is data.sequence_length = {} and one more "
         "target; the job "
         "says {}",
         kDataset, file.name(), width, width - 1, length);
  return rows;
}

std::int64_t count_sequences(const hdf5::File& file, const std::vector<std::int64_t>& shape,
                             std::int64_t length) {
  if (shape.size() == 1) return stream_sequences(file, shape[0], length);
  if (shape.size() == 2) return row_sequences(file, shape[0], shape[1], length);
  fail(ExitCode::kBadData,
       "the dataset '{}' of {} has the shape {}; it must be a stream [n] or rows [sequences, length + 1]",
       kDataset, file.name(), shape_text(shape));
}

}  // namespace

TokenFile::TokenFile(hdf5::File file, hdf5::Dataset tokens, std::int64_t sequence_length,
                     std::int64_t vocab_size)
    : file_(std::move(file)),
      tokens_(std::move(tokens)),
      sequence_length_(sequence_length),
      vocab_size_(vocab_size),
      is_stream_(tokens_.shape().size() == 1),
      sequence_count_(count_sequences(file_, tokens_.shape(), sequence_length)) {}

TokenFile TokenFile::open(const std::filesystem::path& path, std::int64_t sequence_length,
                          std::int64_t vocab_size) {
  SLUICE_ASSERT(sequence_length > 0, "a sequence of {} tokens", sequence_length);
  hdf5::File file = hdf5::File::open(path);
  hdf5::Dataset tokens = open_tokens(file);
  return TokenFile(std::move(file), std::move(tokens), sequence_length, vocab_size);
}

void TokenFile::read_sequence(std::int64_t index, std::span<std::int64_t> ids) const {
  SLUICE_ASSERT(0 <= index && index < sequence_count_, "sequence {} of {}", index, sequence_count_);
  const std::int64_t width = sequence_length_ + 1;
  if (is_stream_)
    tokens_.read<std::int64_t>({{index * sequence_length_}, {width}}, ids);
  else
    tokens_.read<std::int64_t>({{index, 0}, {1, width}}, ids);
  check_ids(index, ids);
}

void TokenFile::check_ids(std::int64_t index, std::span<const std::int64_t> ids) const {
  for (std::int64_t i = 0; i < std::ssize(ids); ++i) {
    const std::int64_t id = ids[static_cast<std::size_t>(i)];
    if (0 <= id && id < vocab_size_) continue;
    const std::string place =
        is_stream_ ? fmt::format("[{}]", index * sequence_length_ + i) : fmt::format("[{}, {}]", index, i);
    fail(ExitCode::kBadData,
         "{}{} in {} is {}, but the model knows the ids 0 to {}; the tokens were probably made with another "
         "model's tokenizer",
         kDataset, place, file_.name(), id, vocab_size_ - 1);
  }
}

}  // namespace sluice
