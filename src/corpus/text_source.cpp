#include "corpus/text_source.hpp"

#include "base/bytes.hpp"
#include "base/digest.hpp"
#include "corpus/source/source_form.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "text/tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace sluice::corpus {
namespace {

namespace fs = std::filesystem;

/// Digest of the digests of a file's blocks, so that memory holds only one block.
Digest digest_of_file(const fs::path& path, const std::function<void()>& on_block) {
  const InputFile file = InputFile::open(path);
  file.advise_sequential();
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(4 * kMiB, file.size_bytes())));
  std::string digests = fmt::format("{}", file.size_bytes());
  for (std::int64_t offset = 0; offset < file.size_bytes(); offset += std::ssize(block)) {
    const std::int64_t count = std::min(std::ssize(block), file.size_bytes() - offset);
    const std::span<std::byte> read = std::span(block).first(static_cast<std::size_t>(count));
    file.read_at(offset, read);
    digests += digest_of(read, 0).hex();
    on_block();
  }
  return digest_of(digests);
}

/// Digest of a text; rows of JSON count as different from the same bytes as text, since they give other
/// tokens.
Digest digest_of_text(const fs::path& text, SourceForm form, const std::function<void()>& on_block) {
  const Digest bytes = digest_of_file(text, on_block);
  return form == SourceForm::kText ? bytes
                                   : digest_of(fmt::format("{} {}", bytes.hex(), static_cast<int>(form)));
}

/// Lines with the name and the digest of each of these files in a model's directory that is there.
std::string digests_of(const fs::path& model, std::initializer_list<const char*> names) {
  std::string digests;
  for (const char* name : names)
    if (path_exists(model / name))
      digests += fmt::format("{} {}\n", name, digest_of_file(model / name, [] {}).hex());
  return digests;
}

}  // namespace

TokenFileName token_file_name(const fs::path& text, const fs::path& model,
                              const std::function<void()>& on_block, const RowOptions& row) {
  constexpr std::size_t kDigits = 16;
  const SourceForm form = form_of_file(text);
  const std::string of_text = digest_of_text(text, form, on_block).hex().substr(0, kDigits);
  if (!text::Tokenizer::find(model)) static_cast<void>(InputFile::open(model / "tokenizer.json"));
  const std::string of_model =
      digests_of(model, {"tokenizer.json", "tiktoken.model", "tokenizer_config.json",
                         "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
                         "additional_chat_templates/tool_use.jinja", "config.json"});
  const std::string of_rows = form == SourceForm::kText ? "" : digests_of(model, {"generation_config.json"});
  const std::string others = row.answers == Answers::kPair       ? "pairs\n"
                             : row.answers == Answers::kRejected ? "rejected answers\n"
                                                                 : "";
  const auto name = [&](const std::string& digests) {
    return fmt::format("{}-{}.h5", of_text, digest_of(digests).hex().substr(0, kDigits));
  };
  const std::string present = name(of_model + of_rows + others);
  return {present, others.empty() ? name(of_model) : present};
}

}  // namespace sluice::corpus
