#include "checkpoint/restore.hpp"
#include "checkpoint/save.hpp"
#include "checkpoint/saved_weights.hpp"
#include "checkpoint/step_directory.hpp"
#include "checkpoint/synced_files.hpp"
#include "checkpoint/test_state.hpp"
#include "load/streaming_loader.hpp"
#include "model/small_model.hpp"
#include "support/expect_error.hpp"
#include "support/mpi_test.hpp"
#include "support/shared_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using test::request_of;
using test::State;
using test::test_world;

std::vector<OptimizerMode> modes_to_save() {
  return {{OptimizerKind::kAdamW, StateFormat::kFloat32, MasterFormat::kFloat32},
          {OptimizerKind::kAdamW, StateFormat::kInt8, MasterFormat::k24Bit},
          {OptimizerKind::kLion, StateFormat::kBFloat16, MasterFormat::kNone},
          {OptimizerKind::kAdafactor, StateFormat::kFactored, MasterFormat::k24Bit}};
}

TEST(SaveAndRestore, moves_every_byte_between_numbers_of_ranks_and_layouts_of_experts) {
  for (const auto& changes : {nlohmann::json::object(), test::hybrid_changes()})
    for (const OptimizerMode& mode : modes_to_save()) {
      const test::SmallModel model(changes);
      const UnitLayouts layouts =
          make_unit_layouts(model.description.manifest, mode.state == StateFormat::kInt8 ? kStateBlock : 1);
      const test::SharedDirectory directory;
      const std::filesystem::path path = directory / "steps";
      State saved(test_world(), model, layouts, mode, DType::kBFloat16, test_world().size());
      saved.fill();
      save_step(test_world(), request_of(path, model, saved, 1));
      const std::filesystem::path step = path / step_name(1);
      for (int size = 1; size <= test_world().size(); ++size) {
        const auto part = test_world().split(test_world().rank() < size ? 0 : 1, test_world().rank());
        if (test_world().rank() >= size) continue;
        for (const int expert_parallel : {1, size}) {
          State restored(*part, model, layouts, mode, DType::kBFloat16, expert_parallel);
          restore_step(*part, read_saved_step(step), step, model.description.manifest, restored.spans());
          EXPECT_EQ(restored.wrong_bytes(), 0) << size << " ranks";
        }
      }
    }
}

TEST(SaveAndRestore, comes_back_from_fewer_ranks_as_it_went) {
  for (const OptimizerMode& mode : modes_to_save()) {
    const test::SmallModel model;
    const UnitLayouts layouts =
        make_unit_layouts(model.description.manifest, mode.state == StateFormat::kInt8 ? kStateBlock : 1);
    const test::SharedDirectory directory;
    const std::filesystem::path path = directory / "steps";
    State first(test_world(), model, layouts, mode, DType::kBFloat16, test_world().size());
    first.fill();
    save_step(test_world(), request_of(path, model, first, 1));
    const bool takes_part = test_world().rank() < std::max(1, test_world().size() - 1);
    if (const auto fewer = test_world().split(takes_part ? 0 : 1, test_world().rank()); takes_part) {
      State between(*fewer, model, layouts, mode, DType::kBFloat16, 1);
      restore_step(*fewer, read_saved_step(path / step_name(1)), path / step_name(1),
                   model.description.manifest, between.spans());
      SaveRequest second = request_of(path, model, between, 2);
      second.keep = 3;
      save_step(*fewer, std::move(second));
    }
    test_world().barrier();
    State last(test_world(), model, layouts, mode, DType::kBFloat16, test_world().size());
    restore_step(test_world(), read_saved_step(path / step_name(2)), path / step_name(2),
                 model.description.manifest, last.spans());
    EXPECT_EQ(last.wrong_bytes(), 0);
    SaveRequest third = request_of(path, model, last, 3);
    third.keep = 3;
    save_step(test_world(), std::move(third));
    const std::string file = "rank-0000" + std::to_string(test_world().rank()) + ".safetensors";
    EXPECT_EQ(read_text_file(path / step_name(1) / file, kGiB),
              read_text_file(path / step_name(3) / file, kGiB));
  }
}

TEST(SaveAndRestore, saves_what_was_there_at_the_beginning_while_units_change) {
  const OptimizerMode mode{OptimizerKind::kAdamW, StateFormat::kInt8, MasterFormat::k24Bit};
  const test::SmallModel model;
  const UnitLayouts layouts = make_unit_layouts(model.description.manifest, kStateBlock);
  for (const bool backward : {false, true}) {
    const test::SharedDirectory directory;
    const std::filesystem::path path = directory / "steps";
    State state(test_world(), model, layouts, mode, DType::kBFloat16, 1);
    state.fill();
    SaveRequest request = request_of(path, model, state, 1);
    if (backward) order_backward(request.state);
    const std::vector<StateSpan> spans = request.state;
    StepSave save(test_world(), std::move(request));
    for (const StateSpan& span : spans) {
      save.keep(span.unit);
      std::memset(span.data, 0x5a, static_cast<std::size_t>(span.bytes()));
    }
    static_cast<void>(save.finish());
    restore_step(test_world(), read_saved_step(path / step_name(1)), path / step_name(1),
                 model.description.manifest, state.spans());
    EXPECT_EQ(state.wrong_bytes(), 0);
  }
}

TEST(SaveAndRestore, leaves_nothing_of_a_step_that_is_given_up) {
  const OptimizerMode mode{OptimizerKind::kAdamW, StateFormat::kFloat32, MasterFormat::kFloat32};
  const test::SmallModel model;
  const test::SharedDirectory directory;
  State state(test_world(), model, model.layouts, mode, DType::kBFloat16, 1);
  { const StepSave save(test_world(), request_of(directory / "steps", model, state, 1)); }
  test_world().barrier();
  EXPECT_TRUE(std::filesystem::is_empty(directory / "steps"));
}

TEST(SaveAndRestore, a_step_has_its_name_only_when_all_of_it_is_on_the_disk) {
  const test::SmallModel model;
  const OptimizerMode mode{OptimizerKind::kAdamW, StateFormat::kFloat32, MasterFormat::kFloat32};
  State state(test_world(), model, model.layouts, mode, DType::kFloat32, 1);
  state.fill();
  const test::SharedDirectory directory;
  const std::filesystem::path steps = directory / "steps", step = steps / step_name(1);
  const test::SyncedFiles synced(step);
  save_step(test_world(), request_of(steps, model, state, 1));
  std::string before;  // bytes that any rank has written
  for (const std::string& of_rank : test_world().all_gather_text(synced.before())) before += of_rank;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(step), {}), test_world().size() + 1);
  for (const auto& entry : std::filesystem::directory_iterator(step))
    EXPECT_THAT(before, testing::HasSubstr(test::SyncedFiles::name_of(entry.path()))) << entry.path();
  EXPECT_THAT(before, testing::HasSubstr(test::SyncedFiles::name_of(step)));
  if (test_world().rank() == 0) {
    EXPECT_THAT(synced.after(), testing::HasSubstr(test::SyncedFiles::name_of(steps)));
  }
  test_world().barrier();
}

TEST(SaveAndRestore, gives_the_loader_the_weights) {
  const test::SmallModel model;
  const test::SharedDirectory directory;
  const std::filesystem::path path = directory / "steps";
  const OptimizerMode mode{OptimizerKind::kAdamW, StateFormat::kFloat32, MasterFormat::kFloat32};
  State saved(test_world(), model, model.layouts, mode, DType::kBFloat16, test_world().size());
  saved.fill();
  save_step(test_world(), request_of(path, model, saved, 1));
  const std::filesystem::path step = path / step_name(1);
  const MatchedCheckpoint weights =
      saved_weights(read_saved_step(step), step, model.description.manifest, DType::kBFloat16);
  State loaded(test_world(), model, model.layouts, mode, DType::kBFloat16, 1);
  const LoadPlan plan(weights.index, weights.match, loaded.plan(),
                      {DType::kBFloat16, 8 * kMiB, ReaderAssignment::rank0(test_world().size())});
  plan.check_coverage();
  static_cast<void>(load_shards(test_world(), plan, step, &loaded.weights(), {}));
  std::int64_t wrong = 0;
  for (const StateSpan& span : loaded.spans())
    for (std::int64_t i = 0; span.array == kWeightsArray && i < span.bytes(); ++i)
      wrong += span.data[i] == State::byte_of(span, i) ? 0 : 1;
  EXPECT_EQ(wrong, 0);
}

TEST(SaveAndRestore, names_the_tensor_in_a_block_that_was_changed) {
  const test::SmallModel model;
  const test::SharedDirectory directory;
  const std::filesystem::path path = directory / "steps";
  const OptimizerMode mode{OptimizerKind::kAdamW, StateFormat::kFloat32, MasterFormat::kFloat32};
  State state(test_world(), model, model.layouts, mode, DType::kFloat32, 1);
  save_step(test_world(), request_of(path, model, state, 1));
  const std::filesystem::path step = path / step_name(1);
  if (test_world().rank() == 0) {
    std::fstream file(step / "rank-00000.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('x');
  }
  test_world().barrier();
  const auto restore = [&] {
    restore_step(test_world(), read_saved_step(step), step, model.description.manifest, state.spans());
  };
  test::expect_error(ExitCode::kBadData, {"rank-00000.safetensors: bytes 0 to "}, restore);
  test::expect_error(ExitCode::kBadData, {"what was saved"}, restore);
}

TEST(SaveAndRestore, refuses_a_step_that_lacks_numbers) {
  const test::SmallModel model;
  const OptimizerMode mode{OptimizerKind::kAdamW, StateFormat::kFloat32, MasterFormat::kFloat32};
  State state(test_world(), model, model.layouts, mode, DType::kFloat32, 1);
  const auto plan = [&](const SavedStep& step) {
    static_cast<void>(plan_restore(step, "step", model.description.manifest, state.spans()));
  };
  SavedStep step;
  test::expect_error(ExitCode::kBadData, {"step does not hold", "weights of "}, [&] { plan(step); });
  SavedEntry entry{"a", "weights", DType::kFloat32, {0, 10}, 0};
  step.files.push_back({"file", 100, {entry, entry}, {}});
  test::expect_error(ExitCode::kBadData, {"step holds number 0 ", "weights of a", "twice"},
                     [&] { plan(step); });
}

TEST(SaveAndRestore, keeps_as_many_steps_as_asked_and_replaces_others) {
  const test::SmallModel model;
  const test::SharedDirectory directory;
  const std::filesystem::path path = directory / "steps";
  const OptimizerMode mode{OptimizerKind::kAdamW, StateFormat::kFloat32, MasterFormat::kFloat32};
  State state(test_world(), model, model.layouts, mode, DType::kFloat32, 1);
  for (const std::int64_t step : {1, 2, 3, 3}) {
    SaveRequest request = request_of(path, model, state, step);
    save_step(test_world(), request);
  }
  test_world().barrier();
  EXPECT_EQ(list_steps(path).size(), 2);
  test_world().barrier();
  SaveRequest request = request_of(path, model, state, 1);
  request.superseded = {path / step_name(2), path / step_name(3)};
  save_step(test_world(), request);
  EXPECT_EQ(list_steps(path).size(), 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path), {}), 1);
}

}  // namespace
}  // namespace sluice
