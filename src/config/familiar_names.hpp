// Names of other trainers' settings, and their names in a job file.
#pragma once

#include <span>
#include <string_view>

namespace sluice {

/// Keys that people know from Hugging Face's Trainer, TRL, PEFT, LLaMA-Factory, Axolotl, torchtune, Megatron
/// or DeepSpeed.
struct FamiliarNames {
  std::string_view names;  ///< names with the same meaning, with blanks between them
  std::string_view hint;   ///< hint to the user, which follows "unknown key, "
};
[[nodiscard]] std::span<const FamiliarNames> familiar_keys();

/// Hint for another trainer's key, "expected train.steps"; "" for an unknown key. Dashes and capitals do not
/// count.
[[nodiscard]] std::string_view familiar_key_hint(std::string_view key);

/// Hint for another trainer's table ("training_args"), which follows "unknown table, ".
[[nodiscard]] std::string_view familiar_table_hint(std::string_view table);

}  // namespace sluice
