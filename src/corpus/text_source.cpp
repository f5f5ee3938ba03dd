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
Digest digest_of_text(const fs::path& text, const std::function<void()>& on_block) {
  const Digest bytes = digest_of_file(text, on_block);
  const SourceForm form = form_of_file(text);
  return form == SourceForm::kText ? bytes
                                   : digest_of(fmt::format("{} {}", bytes.hex(), static_cast<int>(form)));
}

Digest digest_of_tokenizer(const fs::path& model) {
  std::string digests;
  const bool has_tokenizer = text::Tokenizer::find(model).has_value();
  for (const char* name : {"tokenizer.json", "tiktoken.model", "tokenizer_config.json",
                           "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
                           "additional_chat_templates/tool_use.jinja", "config.json"}) {
    const bool is_missed = !has_tokenizer && name == std::string("tokenizer.json");
    if (!is_missed && !path_exists(model / name)) continue;
    digests += fmt::format("{} {}\n", name, digest_of_file(model / name, [] {}).hex());
  }
  return digest_of(digests);
}

}  // namespace

std::string token_file_name(const fs::path& text, const fs::path& model,
                            const std::function<void()>& on_block) {
  constexpr std::size_t kDigits = 16;
  const std::string of_model = digest_of_tokenizer(model).hex();
  const std::string of_text = digest_of_text(text, on_block).hex();
  return fmt::format("{}-{}.h5", of_text.substr(0, kDigits), of_model.substr(0, kDigits));
}

}  // namespace sluice::corpus
