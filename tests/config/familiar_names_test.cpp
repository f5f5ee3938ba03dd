#include "config/familiar_names.hpp"

#include "config/schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

using testing::HasSubstr;

std::set<std::string> names_of(std::string_view words) {
  std::istringstream in{std::string(words)};
  return {std::istream_iterator<std::string>(in), {}};
}

TEST(FamiliarNames, of_other_trainers_are_answered_with_ours) {
  for (const auto& [name, ours] : {std::pair{"gradient_accumulation_steps", "train.batch_sequences"},
                                   {"num_train_epochs", "train.steps"},
                                   {"load_in_4bit", "model.frozen_format"},
                                   {"per_device_train_batch_size", "train.micro_batch_sequences"},
                                   {"warmup_ratio", "schedule.warmup_steps"},
                                   {"lr", "optimizer.learning_rate"},
                                   {"bf16", "model.dtype"},
                                   {"gradient_checkpointing", "train.recompute"},
                                   {"save_steps", "checkpoint.every_steps"},
                                   {"eval_steps", "evaluate.every_steps"},
                                   {"logging_steps", "metrics.log_every"},
                                   {"max_steps", "train.steps"},
                                   {"max_seq_length", "data.sequence_length"},
                                   {"model_name_or_path", "model.path"},
                                   {"output_dir", "job.output"},
                                   {"lora_r", "lora.rank"},
                                   {"lora_alpha", "lora.alpha"},
                                   {"target_modules", "lora.targets"},
                                   {"packing", "data.pack"},
                                   {"loss_type", "prefer.loss"},
                                   {"rpo_alpha", "prefer.sft_weight"},
                                   {"ref_model", "prefer.reference"},
                                   {"seed", "data.seed"},
                                   {"deepspeed", "sluice launch -n"},
                                   {"FSDP", "sluice launch -n"}})
    EXPECT_THAT(std::string(familiar_key_hint(name)), HasSubstr(ours)) << name;
  EXPECT_EQ(familiar_key_hint("Max-Steps"), familiar_key_hint("max_steps"));
  EXPECT_EQ(familiar_key_hint("no_such_name"), "");
  EXPECT_EQ(familiar_key_hint(""), "");
  EXPECT_THAT(std::string(familiar_table_hint("training_args")), HasSubstr("[train]"));
  EXPECT_EQ(familiar_table_hint("train"), "");
}

TEST(FamiliarNames, are_each_known_once_and_none_but_seed_is_a_key_of_a_table) {
  std::set<std::string> all;
  for (const FamiliarNames& some : familiar_keys())
    for (const std::string& name : names_of(some.names)) {
      EXPECT_TRUE(all.insert(name).second) << name << " is there twice";
      for (const Table& table : schema())
        EXPECT_TRUE(name == "seed" || find_field(table, name) == nullptr) << table.name << "." << name;
    }
}

TEST(FamiliarNames, have_hints_that_name_keys_there_are) {
  const std::regex key_text("\\b([a-z]+)\\.([a-z_]+)\\b");
  for (const FamiliarNames& some : familiar_keys()) {
    const std::string hint(some.hint);
    for (std::sregex_iterator it(hint.begin(), hint.end(), key_text), end; it != end; ++it) {
      const Table* table = find_table((*it)[1].str());
      ASSERT_NE(table, nullptr) << hint;
      EXPECT_NE(find_field(*table, (*it)[2].str()), nullptr) << hint;
    }
  }
}

}  // namespace
}  // namespace sluice
