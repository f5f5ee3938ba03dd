// Settings of other trainers, with their names here.
#pragma once

#include <span>
#include <string_view>

namespace sluice {

/// Keys that people know from Hugging Face's Trainer, TRL, PEFT, LLaMA-Factory, Axolotl, torchtune, Megatron
/// or DeepSpeed.
struct FamiliarNames {
  std::string_view names;  ///< all that mean the same, with blanks between them
  std::string_view hint;   ///< words that follow "unknown key, "
};
[[nodiscard]] std::span<const FamiliarNames> familiar_keys();

/// Hint for another trainer's key, "expected train.steps"; "" for one that is not known. Dashes and capitals
/// do not count.
[[nodiscard]] std::string_view familiar_key_hint(std::string_view key);

/// Hint for the name of a table ("training_args"), in words that follow "unknown table, ".
[[nodiscard]] std::string_view familiar_table_hint(std::string_view table);

}  // namespace sluice
