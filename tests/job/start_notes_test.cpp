#include "job/prepare/start_notes.hpp"

#include "manifest/adapter_targets.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace sluice {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

JobConfig job(std::int64_t batch, std::int64_t length) {
  JobConfig config;
  config.train.batch_sequences = batch;
  config.data.sequence_length = length;
  return config;
}

ModelDescription model(std::int64_t positions) {
  ModelDescription described;
  described.config.max_positions = positions;
  return described;
}

TEST(StartNotes, tell_of_ranks_without_a_sequence) {
  EXPECT_THAT(job_notes(job(3, 8), model(8), 3), IsEmpty());
  EXPECT_THAT(job_notes(job(3, 8), model(8), 5),
              ElementsAre(AllOf(HasSubstr("train.batch_sequences is 3"), HasSubstr("2 of 5 ranks"))));
}

TEST(StartNotes, tell_of_sequences_longer_than_the_models_positions) {
  EXPECT_THAT(job_notes(job(1, 9), model(8), 1), ElementsAre(AllOf(HasSubstr("data.sequence_length is 9"),
                                                                   HasSubstr("max_position_embeddings 8"))));
  EXPECT_THAT(job_notes(job(1, 9), model(0), 1), IsEmpty()) << "not told by the model";
}

TEST(StartNotes, tell_of_projections_that_adapters_hardly_change) {
  ModelDescription described = model(8);
  described.manifest.add({.name = "model.layers.0.self_attn.q_proj.weight",
                          .shape = {6, 5},
                          .role = Role::kAttention,
                          .tied_to = {}});
  described.adapters.tensors = {{"model.layers.0.self_attn.q_proj.weight", 2, 1}};
  EXPECT_THAT(job_notes(job(3, 8), described, 3), IsEmpty());
  described.manifest.add({.name = "model.layers.0.mlp.experts.down_proj",
                          .shape = {3, 5, 4},
                          .role = Role::kExpert,
                          .tied_to = {}});
  EXPECT_THAT(job_notes(job(3, 8), described, 3),
              ElementsAre(AllOf(HasSubstr("0.0 % of expert"), Not(HasSubstr("attention")),
                                HasSubstr("lora.targets"))));
}

TEST(StartNotes, tell_of_weights_that_peft_refuses_to_adapt) {
  const auto notes = [](const std::vector<std::string>& targets, bool is_refused = true) {
    ModelDescription model;
    model.config.model_type = "nemotron_h";
    for (const char* name : {"in_proj.weight", "out_proj.weight"})
      model.manifest.add({.name = std::string("model.layers.0.mixer.") + name,
                          .shape = {4, 4},
                          .role = Role::kLinearAttention,
                          .layer = 0,
                          .tied_to = {}});
    if (is_refused) model.manifest.set_refused_by_peft(".out_proj.weight");
    JobConfig config = job(3, 8);
    config.lora.targets = targets;
    for (const std::string& base : adapter_targets(model.manifest, targets))
      model.adapters.tensors.push_back({base, 2, 1});
    return adapter_notes(config, model);
  };
  EXPECT_THAT(notes({"all-linear"}),
              ElementsAre(AllOf(HasSubstr("leaves out 1 weight"), HasSubstr("mixer.out_proj.weight"))));
  EXPECT_THAT(notes({"out_proj"}), ElementsAre(AllOf(HasSubstr("out_proj"), HasSubstr("will not open"))));
  EXPECT_THAT(notes({"in_proj"}), IsEmpty());
  EXPECT_THAT(notes({"all-linear"}, /*is_refused=*/false), IsEmpty());
}

TEST(StartNotes, say_what_to_set_where_ranks_may_not_read_each_other) {
  ::setenv("OMPI_MCA_mca_base_param_files", "none", 1);
  EXPECT_EQ(single_copy_note(true, "Open MPI v4.1.4"), "");
  EXPECT_THAT(single_copy_note(false, "Open MPI v4.1.4"),
              HasSubstr("OMPI_MCA_btl_vader_single_copy_mechanism=none"));
  EXPECT_THAT(single_copy_note(false, "Open MPI v5.0.1"), HasSubstr("OMPI_MCA_smsc=^cma"));
  EXPECT_EQ(single_copy_note(false, "MPICH Version: 4.1"), "");
  ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "cma", 1);
  EXPECT_EQ(single_copy_note(false, "Open MPI v4.1.4"), "") << "as the user has chosen";
  ::unsetenv("OMPI_MCA_btl_vader_single_copy_mechanism");
  ::unsetenv("OMPI_MCA_mca_base_param_files");
}

TEST(StartNotes, of_a_job_without_tokens_are_none) {
  JobConfig config = job(1, 9);
  config.job.kind = JobKind::kLoad;
  EXPECT_THAT(job_notes(config, model(8), 5), IsEmpty());
}

TEST(StartNotes, tell_of_a_rank_that_is_bound_to_fewer_cores_than_its_share) {
  EXPECT_THAT(binding_note(1, 1, 8, 2),
              HasSubstr("rank 1 is bound to 1 of 8 cores; to use its share, add --bind-to none"));
  EXPECT_EQ(binding_note(1, 4, 8, 2), "");
  EXPECT_EQ(binding_note(1, 8, 8, 2), "");
  EXPECT_EQ(binding_note(1, 1, 2, 3), "");
}

TEST(StartNotes, tell_of_one_rank_in_an_allocation_of_several_tasks) {
  unsetenv("SLURM_NTASKS");
  EXPECT_THAT(launch_notes(1), IsEmpty());
  setenv("SLURM_NTASKS", "1", 1);
  EXPECT_THAT(launch_notes(1), IsEmpty());
  setenv("SLURM_NTASKS", "4", 1);
  EXPECT_THAT(launch_notes(1), ElementsAre(HasSubstr("allocation of 4 tasks")));
  EXPECT_THAT(launch_notes(4), IsEmpty());
  unsetenv("SLURM_NTASKS");
}

TEST(StartNotes, tell_how_many_epochs_a_training_is) {
  JobConfig config = job(6, 48);
  config.train.steps = 8;
  EXPECT_EQ(data_text(config, {{.sequences = 41}}),
            "41 sequences of 48 tokens; 8 steps of 6 sequences are 1.17 epochs");
  config.job.kind = JobKind::kEvaluate;
  EXPECT_EQ(data_text(config, {{.sequences = 41, .marks_documents = true}}),
            "41 sequences of 48 tokens, documents kept apart");
}

TEST(StartNotes, tell_the_share_and_the_epochs_of_each_source) {
  JobConfig config = job(6, 48);
  config.train.steps = 100;
  config.data.source = {{"a.h5", 3}, {"b.h5", 1}};
  EXPECT_EQ(data_text(config, {{.sequences = 900, .marks_documents = true}, {.sequences = 50}}),
            "2 sources with 950 sequences of 48 tokens, documents kept apart; 100 steps of 6 sequences\n"
            "          a.h5: 900 sequences, 75 % of those taken, 0.5 epochs\n"
            "          b.h5: 50 sequences, 25 % of those taken, 3 epochs");
}

TEST(StartNotes, tell_how_full_packed_sequences_are) {
  JobConfig config = job(6, 50);
  config.train.steps = 8;
  SourceFacts packed{.sequences = 96, .documents = 500, .marks_documents = true, .is_packed = true};
  packed.packed_sequences = 100;
  packed.packed_inputs = 4750;
  EXPECT_EQ(data_text(config, {packed}),
            "about 96 sequences of 50 tokens, documents kept apart; 8 steps of 6 sequences are 0.5 epochs\n"
            "          500 documents packed 95.0 % full");
  packed.long_documents = 3;
  config.data.long_documents = LongDocuments::kLeaveOut;
  config.data.source = {{"a.h5", 3}, {"b.h5", 1}};
  EXPECT_THAT(
      data_text(config, {packed, packed}),
      HasSubstr("b.h5: 96 sequences, 25 % of those taken, 0.125 epochs; 500 documents packed 95.0 % full; "
                "longer than a sequence: 3, left out"));
}

}  // namespace
}  // namespace sluice
