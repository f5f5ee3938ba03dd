// Identity of texts that are tokenized, by their content.
#pragma once

#include "corpus/conversation.hpp"

#include <filesystem>
#include <functional>
#include <string>

namespace sluice::corpus {

/// Names of the token file of a text.
struct TokenFileName {
  std::string name;     ///< name that a new file gets
  std::string earlier;  ///< name that earlier versions gave to it
};

/// "TEXT-MODEL.h5", by the digests of a text, with whether it is rows of JSON, and of what in a model's
/// directory says how it becomes tokens: tokenizer and its settings, chat template, config.json, for rows of
/// JSON also generation_config.json, whose end tokens end answers, and the answers of `row` that are not the
/// default. Reads all of the text; `on_block` is
/// called between its blocks of 4 MiB. Error(kBadData) if the text or the tokenizer is missing.
[[nodiscard]] TokenFileName token_file_name(const std::filesystem::path& text,
                                            const std::filesystem::path& model,
                                            const std::function<void()>& on_block,
                                            const RowOptions& row = {});

}  // namespace sluice::corpus
