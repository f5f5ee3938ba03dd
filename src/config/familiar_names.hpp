// What settings of other trainers are called here.
#pragma once

#include <span>
#include <string_view>

namespace sluice {

/// Keys that people know from Hugging Face's Trainer, TRL, PEFT, LLaMA-Factory, Axolotl, torchtune, Megatron or DeepSpeed.
struct FamiliarNames {
  std::string_view names;  ///< all that mean the same, with blanks between them
  std::string_view hint;   ///< words that follow "unknown key, "
};
[[nodiscard]] std::span<const FamiliarNames> familiar_keys();

/// What such a key is called here, "expected train.steps"; "" for one that is not known. Dashes and capitals do not count.
[[nodiscard]] std::string_view familiar_key_hint(std::string_view key);

/// The same for the name of a table ("training_args"), in words that follow "unknown table, ".
[[nodiscard]] std::string_view familiar_table_hint(std::string_view table);

}  // namespace sluice
