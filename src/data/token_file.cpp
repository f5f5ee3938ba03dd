#include "data/token_file.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/token_writer.hpp"
#include "io/trial_process.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr const char* kDataset = "tokens";
/// Tokens that are checked together before the first step: 1 MiB of ids.
constexpr std::int64_t kCheckedTokens = 128 * std::int64_t{1024};

hdf5::Dataset open_tokens(const hdf5::File& file) {
  if (!file.exists("/tokens"))
    fail({ExitCode::kBadData, "data.token_file"}, "{} has no dataset '{}'; it holds: {}", file.name(),
         kDataset, printable(join_some(file.children("/"))));
  hdf5::Dataset tokens = file.dataset("/tokens");
  if (!tokens.is_integer())
    fail({ExitCode::kBadData, "data.token_file"},
         "the dataset '{}' of {} does not hold integers; token ids are whole numbers", kDataset, file.name());
  if (const std::string unreadable_reason = tokens.unreadable_reason(); !unreadable_reason.empty())
    fail({ExitCode::kBadData, "data.token_file"}, "the dataset '{}' of {} cannot be read whole: {}", kDataset,
         file.name(), unreadable_reason);
  return tokens;
}

std::int64_t stream_sequences(const hdf5::File& file, std::int64_t tokens, const TokenFileOptions& options) {
  const std::int64_t length = options.sequence_length;
  const std::int64_t least = options.keep_rest ? 2 : length + 1;
  if (tokens < least)
    fail({ExitCode::kBadData, "data.token_file"},
         "the dataset '{}' of {} has {} tokens; data.sequence_length = {} needs at least {}", kDataset,
         file.name(), tokens, length, least);
  return (tokens - 1 + (options.keep_rest ? length - 1 : 0)) / length;
}

std::int64_t row_sequences(const hdf5::File& file, std::int64_t rows, std::int64_t width,
                           std::int64_t length) {
  if (rows == 0)
    fail({ExitCode::kBadData, "data.token_file"}, "the dataset '{}' of {} has no rows", kDataset,
         file.name());
  if (width != length + 1)
    fail({ExitCode::kBadData, "data.token_file"},
         "the dataset '{}' of {} has rows of {} tokens, which is data.sequence_length = {} and one more "
         "target; the job says {}",
         kDataset, file.name(), width, width - 1, length);
  return rows;
}

std::int64_t count_sequences(const hdf5::File& file, const std::vector<std::int64_t>& shape,
                             const TokenFileOptions& options) {
  if (shape.size() == 1) return stream_sequences(file, shape[0], options);
  if (shape.size() == 2) return row_sequences(file, shape[0], shape[1], options.sequence_length);
  fail({ExitCode::kBadData, "data.token_file"},
       "the dataset '{}' of {} has the shape {}; it must be a stream [n] or rows [sequences, length + 1]",
       kDataset, file.name(), shape_text(shape));
}

/// Numbers of answers that TokenWriter kept in the file; attributes of other programs count as absent.
AnswerCounts answers_in(const hdf5::File& file) {
  const auto number = [&](const char* name) {
    const std::vector<std::int64_t> values = file.attribute<std::int64_t>("/", name);
    return values.size() == 1 ? values.front() : 0;
  };
  if (!file.has_attribute("/", kAnswersAttribute) || !file.has_attribute("/", kEndlessAttribute)) return {};
  return {number(kAnswersAttribute), number(kEndlessAttribute)};
}

/// Pairs of the documents that `starts` lists; none if the file has no such dataset.
std::vector<DocumentPair> pairs_in(const hdf5::File& file, const std::optional<DocumentStarts>& starts) {
  if (!file.exists(kPairsDataset)) return {};
  const hdf5::Dataset dataset = file.dataset(kPairsDataset);
  const std::vector<std::int64_t> shape = dataset.shape();
  if (!dataset.is_integer() || shape.size() != 2 || shape[1] != 2 || !dataset.unreadable_reason().empty())
    fail({ExitCode::kBadData, "data.pairs"},
         "the dataset 'pairs' of {} has the shape {}, expected whole numbers [n, 2]{}", file.name(),
         shape_text(shape), dataset.unreadable_reason());
  const std::int64_t documents = starts ? starts->documents() : 0;
  const std::vector<std::int64_t> numbers = dataset.read<std::int64_t>();
  std::vector<DocumentPair> pairs;
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    const auto [first, last] = std::minmax(numbers[i], numbers[i + 1]);
    if (first < 0 || last >= documents || first == last)
      fail({ExitCode::kBadData, "data.pairs"},
           "pairs[{}] of {} is [{}, {}], expected two of the {} that its document_starts list", i / 2,
           file.name(), numbers[i], numbers[i + 1], counted(documents, "document"));
    pairs.push_back({numbers[i], numbers[i + 1]});
  }
  return pairs;
}

/// Number of elements of a shape; open_tokens() has refused shapes for which it overflows.
std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

void check_separator(const hdf5::File& file, const TokenFileOptions& options) {
  if (!options.separator_token) return;
  if (DocumentStarts::are_in(file))
    fail(
        {ExitCode::kBadData, "data.token_file"},
        "{} says where documents begin in its dataset 'document_starts', and the job in data.separator_token "
        "= {}; only one of them can count: remove the key, or the dataset",
        file.name(), *options.separator_token);
  if (*options.separator_token >= options.vocab_size)
    fail({ExitCode::kBadData, "data.token_file"},
         "data.separator_token = {} is not a token: the model knows the ids 0 to {}",
         *options.separator_token, options.vocab_size - 1);
}

}  // namespace

TokenFile::TokenFile(hdf5::File file, hdf5::Dataset tokens, const TokenFileOptions& options)
    : file_(std::move(file)),
      tokens_(std::move(tokens)),
      options_(options),
      is_stream_(tokens_.shape().size() == 1),
      token_count_(product(tokens_.shape())),
      sequence_count_(count_sequences(file_, tokens_.shape(), options)) {
  check_separator(file_, options);
  if (DocumentStarts::are_in(file_)) starts_.emplace(file_, token_count_);
  if (LossMask::is_in(file_)) mask_.emplace(file_, tokens_.shape());
  pairs_ = pairs_in(file_, starts_);
  answers_ = answers_in(file_);
}

TokenFile TokenFile::open(const std::filesystem::path& path, const TokenFileOptions& options) {
  SLUICE_ASSERT(options.sequence_length > 0, "a sequence of {} tokens", options.sequence_length);
  try_in_child(path.string(), [&] {
    const TokenFile file = open_here(path, options);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(options.sequence_length + 1));
    for (const std::int64_t sequence : {std::int64_t{0}, file.sequence_count() - 1})
      static_cast<void>(file.read_any(sequence, ids));
  });
  return open_here(path, options);
}

TokenFile TokenFile::open_here(const std::filesystem::path& path, const TokenFileOptions& options) {
  hdf5::File file = hdf5::File::open(path);
  hdf5::Dataset tokens = open_tokens(file);
  return TokenFile(std::move(file), std::move(tokens), options);
}

std::int64_t TokenFile::first_token(std::int64_t index) const {
  return index * (is_stream_ ? options_.sequence_length : options_.sequence_length + 1);
}

void TokenFile::read_sequence(std::int64_t index, std::span<std::int64_t> ids,
                              std::span<TokenMark> marks) const {
  SLUICE_ASSERT(0 <= index && index < sequence_count_, "sequence {} of {}", index, sequence_count_);
  SLUICE_ASSERT(std::ssize(ids) == options_.sequence_length + 1,
                "found room for {} token ids, expected one more than a sequence has", ids.size());
  const std::span<const std::int64_t> read = read_any(index, ids);
  require_known(first_token(index), read);
  std::ranges::fill(ids.subspan(read.size()), 0);
  if (marks.empty()) return;
  mark(index, read, marks.first(read.size()));
  if (mask_) mask_->mark(box_of(index), marks.first(read.size()));
  std::ranges::fill(marks.subspan(read.size()), TokenMark::kPadding);
}

TokenRange TokenFile::tokens_of(std::int64_t index) const {
  const std::int64_t first = first_token(index);
  return {first, std::min(options_.sequence_length + 1, token_count_ - first)};
}

/// Hyperslab of a sequence's tokens; the last sequence may be shorter.
hdf5::Hyperslab TokenFile::box_of(std::int64_t index) const {
  const TokenRange there = tokens_of(index);
  return is_stream_ ? hdf5::Hyperslab{{there.first}, {there.count}}
                    : hdf5::Hyperslab{{index, 0}, {1, there.count}};
}

std::span<const std::int64_t> TokenFile::read_any(std::int64_t index, std::span<std::int64_t> ids) const {
  const hdf5::Hyperslab box = box_of(index);
  const std::span<std::int64_t> read = ids.first(static_cast<std::size_t>(box.count.back()));
  tokens_.read<std::int64_t>(box, read);
  return read;
}

void TokenFile::check_sequences(std::int64_t first, std::int64_t count, bool& has_target) const {
  SLUICE_ASSERT(0 <= first && 0 <= count && first + count <= sequence_count_, "sequences {} to {} of {}",
                first, first + count, sequence_count_);
  const std::int64_t width = options_.sequence_length + 1;
  const std::int64_t at_once = std::max<std::int64_t>(1, kCheckedTokens / width);
  std::vector<std::int64_t> ids;
  std::vector<TokenMark> marks;
  for (const std::int64_t end = first + count; first < end; first += at_once) {
    const std::int64_t sequences = std::min(at_once, end - first);
    const std::int64_t tokens =
        is_stream_ ? std::min(sequences * options_.sequence_length + 1, token_count_ - first_token(first))
                   : sequences * width;
    ids.resize(static_cast<std::size_t>(tokens));
    const hdf5::Hyperslab box = is_stream_ ? hdf5::Hyperslab{{first_token(first)}, {tokens}}
                                           : hdf5::Hyperslab{{first, 0}, {sequences, width}};
    tokens_.read<std::int64_t>(box, ids);
    require_known(first_token(first), ids);
    if (has_target && !mask_) continue;
    marks.resize(ids.size());
    mark(first, ids, marks);
    if (mask_) mask_->mark(box, marks);
    has_target = has_target || holds_target(marks);
  }
}

/// Whether whole sequences with these marks have a target; nothing predicts the first token of a sequence.
bool TokenFile::holds_target(std::span<const TokenMark> marks) const {
  const std::size_t width =
      is_stream_ ? marks.size() : static_cast<std::size_t>(options_.sequence_length + 1);
  for (std::size_t first = 0; first < marks.size(); first += width)
    if (std::ranges::count(marks.subspan(first + 1, width - 1), TokenMark::kInside) > 0) return true;
  return false;
}

const DocumentStarts& TokenFile::packable_documents() const {
  if (!lists_documents())
    fail(
        {ExitCode::kBadData, "data.token_file"},
        "{} {}; packing (data.pack), pairs and scores need the documents of a stream, as sluice tokenize writes them, of pairs with --pairs",
        file_.name(),
        is_stream_ ? "has no dataset 'document_starts'" : "has rows, each of which is a sequence already");
  return *starts_;
}

void TokenFile::read_run(const TokenRange& run, std::span<std::int64_t> ids,
                         std::span<TokenMark> marks) const {
  const hdf5::Hyperslab box{{run.first}, {run.count}};
  tokens_.read<std::int64_t>(box, ids);
  require_known(run.first, ids);
  if (marks.empty()) return;
  std::ranges::fill(marks, TokenMark::kInside);
  marks.front() = TokenMark::kBegins;
  if (mask_) mask_->mark(box, marks);
}

void TokenFile::check_run(const TokenRange& run) const {
  std::vector<std::int64_t> ids;
  std::vector<TokenMark> marks;
  for (std::int64_t first = run.first, end = run.first + run.count; first < end; first += kCheckedTokens) {
    ids.resize(static_cast<std::size_t>(std::min(kCheckedTokens, end - first)));
    const hdf5::Hyperslab box{{first}, {std::ssize(ids)}};
    tokens_.read<std::int64_t>(box, ids);
    require_known(first, ids);
    marks.resize(mask_ ? ids.size() : 0);
    if (mask_) mask_->mark(box, marks);
  }
}

/// Calls `look` with the marks of a run's tokens behind the first, some at a time, and the place of these in the run,
/// until it returns false.
template <class Look>
void TokenFile::look_at_marks(const TokenRange& run, const Look& look) const {
  std::vector<TokenMark> marks;
  for (std::int64_t first = run.first + 1, end = run.first + run.count; first < end;
       first += kCheckedTokens) {
    marks.assign(static_cast<std::size_t>(std::min(kCheckedTokens, end - first)), TokenMark::kInside);
    mask_->mark({{first}, {std::ssize(marks)}}, marks);
    if (!look(first - run.first, std::span<const TokenMark>(marks))) return;
  }
}

std::int64_t TokenFile::tokens_before_target(const TokenRange& run) const {
  if (!mask_) return std::min<std::int64_t>(1, run.count);
  std::int64_t before = run.count;
  look_at_marks(run, [&](std::int64_t place, std::span<const TokenMark> marks) {
    const auto target = std::ranges::find(marks, TokenMark::kInside);
    if (target == marks.end()) return true;
    before = place + (target - marks.begin());
    return false;
  });
  return before;
}

std::int64_t TokenFile::count_targets(const TokenRange& run) const {
  if (!mask_) return std::max<std::int64_t>(0, run.count - 1);
  std::int64_t targets = 0;
  look_at_marks(run, [&](std::int64_t, std::span<const TokenMark> marks) {
    targets += std::ranges::count(marks, TokenMark::kInside);
    return true;
  });
  return targets;
}

std::string TokenFile::tokenizer_digest() const {
  if (!file_.has_attribute("/", kTokenizerAttribute)) return "";
  try {
    return file_.text_attribute("/", kTokenizerAttribute);
  } catch (const Error&) {
    return "";  // of another program, which means something else by it
  }
}

const std::vector<DocumentPair>& TokenFile::pairs() const {
  if (pairs_.empty())
    fail({ExitCode::kBadData, "data.pairs"},
         "{} has no dataset 'pairs', expected pairs of a chosen and a rejected answer, as `sluice tokenize "
         "--pairs` writes them",
         name());
  return pairs_;
}

std::int64_t TokenFile::count_documents() const {
  if (!marks_documents()) return is_stream_ ? 1 : sequence_count_;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(options_.sequence_length + 1));
  std::vector<TokenMark> marks(ids.size());
  std::int64_t documents = 0;
  for (std::int64_t sequence = 0; sequence < sequence_count_; ++sequence) {
    read_sequence(sequence, ids, marks);
    documents += std::ranges::count(marks, TokenMark::kBegins);
  }
  return documents;
}

Digest TokenFile::digest() const {
  const std::vector<std::int64_t> shape = tokens_.shape();
  const std::int64_t width = is_stream_ ? 1 : shape[1];  // tokens of a row of the dataset
  const std::int64_t most = std::max<std::int64_t>(1, kCheckedTokens / width);
  std::string digests;
  for (std::int64_t first = 0; first < shape[0]; first += most) {
    const std::int64_t rows = std::min(most, shape[0] - first);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(rows * width));
    std::vector<TokenMark> marks(ids.size(), TokenMark::kInside);
    const hdf5::Hyperslab box =
        is_stream_ ? hdf5::Hyperslab{{first}, {rows}} : hdf5::Hyperslab{{first, 0}, {rows, width}};
    tokens_.read<std::int64_t>(box, ids);
    if (starts_) starts_->mark(first * width, marks);
    if (mask_) mask_->mark(box, marks);
    digests += digest_of(std::as_bytes(std::span(ids)), 0).hex();
    digests += digest_of(std::as_bytes(std::span(marks)), 0).hex();
  }
  if (!pairs_.empty()) digests += digest_of(std::as_bytes(std::span(pairs_)), 0).hex();
  return digest_of(digests);
}

void TokenFile::mark(std::int64_t index, std::span<const std::int64_t> ids,
                     std::span<TokenMark> marks) const {
  std::ranges::fill(marks, TokenMark::kInside);
  if (starts_) starts_->mark(first_token(index), marks);
  for (std::size_t i = 1; i < ids.size() && options_.separator_token; ++i)
    if (ids[i - 1] == *options_.separator_token) marks[i] = TokenMark::kBegins;
  // The first token of a later sequence in a stream was the last target of the sequence before.
  marks[0] = index == 0 || !is_stream_ ? TokenMark::kBegins : TokenMark::kInside;
}

/// Checks ids; they are the file's from token `first_token` on.
void TokenFile::require_known(std::int64_t first_token, std::span<const std::int64_t> ids) const {
  const auto is_unknown = [&](std::int64_t id) { return id < 0 || id >= options_.vocab_size; };
  const auto found = std::ranges::find_if(ids, is_unknown);
  if (found == ids.end()) return;
  const std::int64_t token = first_token + (found - ids.begin());
  const std::int64_t width = options_.sequence_length + 1;
  const std::string place =
      is_stream_ ? fmt::format("[{}]", token) : fmt::format("[{}, {}]", token / width, token % width);
  fail({ExitCode::kBadData, "data.token_id"},
       "{}{} in {} is {}, but the model knows the ids 0 to {}; the tokens were probably made with another "
       "model's tokenizer",
       kDataset, place, file_.name(), *found, options_.vocab_size - 1);
}

}  // namespace sluice
