#include "checkpoint/hosts/held_steps.hpp"
#include "checkpoint/hosts/renew_copies.hpp"
#include "checkpoint/restore.hpp"
#include "checkpoint/save.hpp"
#include "checkpoint/test_state.hpp"
#include "comm/solo_communicator.hpp"
#include "support/expect_error.hpp"
#include "support/shared_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using test::State;
using test::test_world;

constexpr OptimizerMode kMode{OptimizerKind::kAdamW, StateFormat::kFloat32, MasterFormat::kFloat32};

/// Each rank is a host with a disk of its own: a directory that no other rank looks at.
class SaveOnHosts : public testing::Test {
 protected:
  SaveOnHosts() { fs::create_directories(own_); }

  static RankDisks disks_of(const Communicator& comm) {
    std::vector<int> of_rank(static_cast<std::size_t>(comm.size()));
    std::iota(of_rank.begin(), of_rank.end(), 0);
    return RankDisks(of_rank);
  }
  static std::vector<std::string> host_names() {
    std::vector<std::string> names;
    for (int rank = 0; rank < test_world().size(); ++rank) names.push_back("h" + std::to_string(rank + 1));
    return names;
  }
  SaveReport save(State& state, std::int64_t step, bool has_copies = true) {
    state.fill();
    SaveRequest request = test::request_of(own_, model_, state, step);
    request.description.saved = "2026-01-01T00:00:0" + std::to_string(++saves_) + "Z";
    request.disks = disks_of(test_world());
    request.hosts = host_names();
    request.has_copies = has_copies;
    request.companions = companions_;
    return save_step(test_world(), std::move(request));
  }
  /// A rank's disk, and all that is on it.
  void lose(int rank) {
    if (test_world().rank() == rank) fs::remove_all(own_);
    test_world().barrier();
  }
  std::optional<HeldStep> newest(Communicator& comm) {
    return HeldSteps(comm, disks_of(comm), own_).find(kNewestStep, [&](const std::string& text) {
      broken_ = text;
    });
  }
  /// The newest step on the ranks of `comm` is restored there.
  void expect_restored(Communicator& comm, std::int64_t step) {
    const std::optional<HeldStep> held = newest(comm);
    ASSERT_TRUE(held.has_value());
    EXPECT_EQ(held->found.step.step, step);
    State state(comm, model_, model_.layouts, kMode, DType::kBFloat16, 1);
    restore_step(comm, held->found.step, held->found.path, StepReaders(held->holders, disks_of(comm)),
                 model_.description.manifest, state.spans());
    EXPECT_EQ(state.wrong_bytes(), 0);
  }
  State make_state() { return {test_world(), model_, model_.layouts, kMode, DType::kBFloat16, 1}; }

  const test::SmallModel model_;
  const test::SharedDirectory directory_;
  const fs::path own_ = directory_ / ("host" + std::to_string(test_world().rank()));
  std::vector<CompanionFile> companions_;
  int saves_ = 0;
  std::string broken_;  ///< what newest() told last
};

TEST_F(SaveOnHosts, a_step_survives_any_one_host_with_its_disk) {
  State state = make_state();
  for (int lost = 0; lost < test_world().size(); ++lost) {
    const SaveReport report = save(state, lost + 1);
    EXPECT_GT(report.copied_bytes, 0);
    EXPECT_LE(report.copied_bytes, report.bytes) << "the state goes over the wire once";
    lose(lost);
    const bool is_left = test_world().rank() != lost;
    if (const auto left = test_world().split(is_left ? 0 : 1, test_world().rank()); is_left)
      expect_restored(*left, lost + 1);
    expect_restored(test_world(), lost + 1);
  }
}

TEST_F(SaveOnHosts, of_copies_of_the_model_that_each_save_one_is_enough) {
  SoloCommunicator self;  // each rank is a set of its own, with all of the state
  State state(self, model_, model_.layouts, kMode, DType::kBFloat16, 1);
  state.fill();
  const auto request = [&](std::int64_t step) {
    SaveRequest all = test::request_of(own_, model_, state, step);
    all.disks = disks_of(test_world());
    all.hosts = host_names();
    all.sets = test_world().size();
    return all;
  };
  const SaveReport report = save_step(test_world(), request(1));
  EXPECT_EQ(report.copied_bytes, 0) << "nothing of it goes over the wire";
  const fs::path step = own_ / step_name(1);
  EXPECT_TRUE(fs::exists(step / "rank-00000.safetensors"));
  EXPECT_FALSE(fs::exists(step / "rank-00001.safetensors"));
  expect_restored(test_world(), 1);
  for (int lost = 0; lost + 1 < test_world().size(); ++lost) {
    lose(lost);
    expect_restored(test_world(), 1);
  }
  if (test_world().rank() == 1) *state.spans().front().data ^= std::byte{1};
  test::expect_error(ExitCode::kInternal, {"rank-00000.safetensors", "rank 1"},
                     [&] { save_step(test_world(), request(2)); });
}

TEST_F(SaveOnHosts, without_copies_a_lost_host_is_named_with_the_file) {
  State state = make_state();
  save(state, 1, false);
  expect_restored(test_world(), 1);
  lose(1);
  test::expect_error(ExitCode::kBadData, {"rank-00001.safetensors", "no other host"},
                     [&] { static_cast<void>(newest(test_world())); });
  if (test_world().rank() == 0) {
    test::expect_error(ExitCode::kBadData, {"rank-00001.safetensors", "h2"}, [&] {
      const fs::path step = own_ / step_name(1);
      require_all_files(step, read_saved_step(step));
    });
    SoloCommunicator self;
    const auto found_on = [&](const RankDisks& disk) {
      return HeldSteps(self, disk, own_).find(kNewestStep, [](const std::string&) {});
    };
    EXPECT_EQ(found_on(RankDisks::of_this_host())->found.step.step, 1) << "other hosts may have the rest";
    EXPECT_THROW(static_cast<void>(found_on(RankDisks::shared(1))), Error);
  }
  test_world().barrier();
}

TEST_F(SaveOnHosts, a_step_that_has_its_name_on_some_hosts_only_is_not_whole_and_the_one_before_is) {
  State state = make_state();
  save(state, 1);
  save(state, 2, false);
  const fs::path step = own_ / step_name(2);
  if (test_world().rank() == 1) fs::rename(step, own_ / ".step-00000002.partial-1");
  test_world().barrier();
  expect_restored(test_world(), 1);
  EXPECT_THAT(broken_, testing::HasSubstr("step-00000002"));
}

TEST_F(SaveOnHosts, what_a_host_kept_from_an_earlier_course_does_not_count) {
  State state = make_state();
  save(state, 1);
  const bool was_away = test_world().rank() == 1;
  if (was_away) fs::rename(own_ / step_name(1), own_ / "away");
  save(state, 1);
  if (was_away) fs::remove_all(own_ / step_name(1));
  if (was_away) fs::rename(own_ / "away", own_ / step_name(1));
  test_world().barrier();
  expect_restored(test_world(), 1);
}

TEST_F(SaveOnHosts, copies_are_made_anew_after_a_host_was_lost) {
  const fs::path companion = own_ / "config";
  std::ofstream(companion) << "{\"a\": 1}";
  if (test_world().rank() == 0) companions_ = {{companion, "config.json"}, {companion, "folder/x.jinja"}};
  State state = make_state();
  save(state, 1);
  lose(test_world().size() - 1);
  const std::optional<HeldStep> held = newest(test_world());
  ASSERT_TRUE(held.has_value());
  const std::int64_t bytes = renew_copies(test_world(), *held, disks_of(test_world()), 60);
  EXPECT_GT(bytes, 0);
  EXPECT_TRUE(fs::exists(own_ / step_name(1) / "folder" / "x.jinja"));
  const std::optional<HeldStep> again = newest(test_world());
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(renew_copies(test_world(), *again, disks_of(test_world()), 60), 0);
  lose(0);
  expect_restored(test_world(), 1);
}

TEST_F(SaveOnHosts, older_steps_go_on_every_host_once_the_new_one_is_whole) {
  State state = make_state();
  for (const std::int64_t step : {1, 2, 3}) save(state, step);
  std::vector<std::int64_t> numbers;
  for (const StepPlace& place : list_steps(own_)) numbers.push_back(place.step);
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(std::distance(fs::directory_iterator(own_), {}), 2) << "nothing else is left";
}

TEST_F(SaveOnHosts, leaves_nothing_of_a_step_that_is_given_up) {
  State state = make_state();
  SaveRequest request = test::request_of(own_, model_, state, 1);
  request.disks = disks_of(test_world());
  request.hosts = host_names();
  request.has_copies = true;
  { const StepSave save(test_world(), std::move(request)); }
  test_world().barrier();
  EXPECT_TRUE(fs::is_empty(own_));
}

}  // namespace
}  // namespace sluice
