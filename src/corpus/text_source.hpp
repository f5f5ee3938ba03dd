// Texts that tokens are made of, by their names and by their content.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace sluice::corpus {

/// Whether a file is lines of JSON, by its name: .jsonl or .ndjson.
[[nodiscard]] bool is_json_lines(const std::filesystem::path& path);
/// Whether its name says that it is text, lines of JSON or not; .txt is text.
[[nodiscard]] bool is_text(const std::filesystem::path& path);

/// "TEXT-MODEL.h5", by the digests of a text and of what in a model's directory says how it becomes tokens: tokenizer and its
/// settings, chat template, config.json. Reads all of the text; `on_block` is called between its blocks of 4 MiB. Error(kBadData)
/// if the text or tokenizer.json is missing.
[[nodiscard]] std::string token_file_name(const std::filesystem::path& text,
                                          const std::filesystem::path& model,
                                          const std::function<void()>& on_block);

}  // namespace sluice::corpus
