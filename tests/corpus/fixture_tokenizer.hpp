// A tokenizer for tests of what is done with one.
#pragma once

#include "support/source_folder.hpp"
#include "text/tokenizer.hpp"

#include <filesystem>

namespace sluice::test {

/// Byte-level, with the end-of-text token <|endoftext|>.
inline const text::Tokenizer& fixture_tokenizer() {
  static const text::Tokenizer tokenizer = text::Tokenizer::load(fixture_folder() / "tokenizers/qwen3");
  return tokenizer;
}

}  // namespace sluice::test
