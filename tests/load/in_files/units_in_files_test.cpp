#include "load/in_files/units_in_files.hpp"

#include "load/checkpoint_load.hpp"
#include "support/mpi_test.hpp"
#include "support/shared_directory.hpp"
#include "support/source_folder.hpp"
#include "verify/arena_digest.hpp"
#include "weights/stored_forms.hpp"
#include "weights/tiny_model.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace sluice {
namespace {

using test::test_world;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// The experts of the fixture's model, in one of its quantised forms, each on one rank.
class UnitsInFilesTest : public testing::Test {
 protected:
  void open(const std::string& form) {
    const fs::path fixture = fixture_folder() / ("qwen3-moe-tiny-" + form);
    test_world().barrier();  // no rank is still at the model before this one
    if (test_world().rank() == 0) {
      fs::remove_all(model());
      fs::copy(fixture, model());
    }
    test_world().barrier();
    index_ = read_checkpoint_index(model());
    match_ = match_checkpoint(index_, keys_, DType::kBFloat16);
    stored_ = find_stored(index_, match_, manifest_);
    layouts_ = std::make_unique<UnitLayouts>(make_unit_layouts(manifest_, 1, stored_.tensors()));
    const int world = test_world().size();
    shards_ = std::make_unique<ShardPlan>(*layouts_, ParallelDims{world, world});
    units_.clear();
    for (int unit = 0; unit < std::ssize(layouts_->units); ++unit)
      if (shards_->is_stored(unit) && shards_->has_experts(unit)) units_.push_back(unit);
  }

  [[nodiscard]] fs::path model() const { return directory_ / "model"; }

  [[nodiscard]] std::unique_ptr<ShardArena> loaded(std::span<const int> elsewhere) const {
    auto arena =
        std::make_unique<ShardArena>(*shards_, test_world().rank(), DType::kBFloat16, MemoryKind::kPrivate,
                                     "weights", ShardArena::Units::kAll, &stored_, elsewhere);
    LoadPlanOptions options{.readers = ReaderAssignment::all(test_world().size())};
    for (const int unit : elsewhere)
      for (const Placement& placement : layouts_->units[static_cast<std::size_t>(unit)].placements())
        options.left_in_files.push_back(placement.tensor);
    std::ranges::sort(options.left_in_files);
    const PlannedLoad planned = plan_load(test_world(), {model(), keys_, *shards_, options});
    load_checkpoint(test_world(), planned, model(), arena.get(), {});
    return arena;
  }

  [[nodiscard]] std::unique_ptr<UnitsInFiles> units_from_files(const ShardArena& arena) const {
    return std::make_unique<UnitsInFiles>(*arena.stored(), manifest_, index_, match_, model(), units_, 60.0);
  }

  test::SharedDirectory directory_;
  ParameterManifest manifest_ = test::manifest_of({});
  KeyMap keys_{manifest_};
  CheckpointIndex index_;
  CheckpointMatch match_;
  StoredTensors stored_;
  std::unique_ptr<UnitLayouts> layouts_;
  std::unique_ptr<ShardPlan> shards_;
  std::vector<int> units_;
};

TEST_F(UnitsInFilesTest, have_the_bytes_of_a_load_in_whatever_order_they_are_asked_for) {
  for (const char* form : {"fp8-blocks", "fp8-rows", "fp8-tensor", "int4", "mxfp4"}) {
    SCOPED_TRACE(form);
    open(form);
    ASSERT_GE(units_.size(), 2U);
    const std::unique_ptr<ShardArena> memory = loaded({}), files = loaded(units_);
    std::int64_t codes = 0;
    for (const int unit : units_) codes += memory->stored()->own_bytes(unit).count();
    EXPECT_EQ(files->bytes(), memory->bytes() - codes);
    files->read_from(units_from_files(*files));
    std::vector<int> order(units_);
    order.insert(order.end(), units_.rbegin(), units_.rend());                   // a step
    order.insert(order.end(), {units_.back(), units_.front(), units_.front()});  // against the pass
    UnitBytes& from_files = *files->elsewhere();
    for (std::size_t i = 0; i < order.size(); ++i) {
      const int unit = order[i];
      if (i == 0) from_files.begin_pass(UnitBytes::Order::kForward);
      if (i == units_.size()) from_files.begin_pass(UnitBytes::Order::kBackward);
      const auto bytes = static_cast<std::size_t>(memory->stored()->own_bytes(unit).count());
      EXPECT_EQ(std::memcmp(files->stored_data(unit), memory->stored_data(unit), bytes), 0) << unit;
    }
  }
}

TEST_F(UnitsInFilesTest, are_examined_once_each_and_have_the_digest_of_a_load) {
  for (int tensor = 0; tensor < std::ssize(manifest_.tensors()); ++tensor) manifest_.freeze(tensor);
  open("fp8-blocks");
  const std::unique_ptr<ShardArena> memory = loaded({}), files = loaded(units_);
  files->read_from(units_from_files(*files));
  static_cast<void>(files->stored_data(units_.front()));  // one is there already
  FrozenDigest digest(test_world(), *files, manifest_);
  std::vector<int> examined;
  files->elsewhere()->examine_first([&](int unit, const std::byte* bytes) {
    digest.add(unit, bytes);
    examined.push_back(unit);
  });
  for (const UnitBytes::Order order : {UnitBytes::Order::kForward, UnitBytes::Order::kBackward}) {
    files->elsewhere()->begin_pass(order);
    for (const int unit : units_) static_cast<void>(files->stored_data(unit));
  }
  EXPECT_EQ(examined, units_);
  EXPECT_EQ(digest.sum(), FrozenDigest(test_world(), *memory, manifest_).sum());
}

TEST_F(UnitsInFilesTest, of_a_file_that_was_cut_fail_with_its_name_and_the_tensor) {
  open("int4");
  const std::unique_ptr<ShardArena> arena = loaded(units_);
  const std::unique_ptr<UnitsInFiles> source = units_from_files(*arena);
  test_world().barrier();
  if (test_world().rank() == 0) fs::resize_file(model() / "model.safetensors", 8192);
  test_world().barrier();
  EXPECT_THAT(test::error_of([&] {
                for (const int unit : units_) static_cast<void>(source->bytes(unit));
              }),
              AllOf(HasSubstr("65: "), HasSubstr("model.safetensors"), HasSubstr("mlp.experts."),
                    HasSubstr("memory.offload")));
  test_world().barrier();
}

TEST_F(UnitsInFilesTest, of_a_file_that_was_changed_fail_with_its_name_and_the_tensor) {
  open("int4");
  const std::unique_ptr<ShardArena> arena = loaded(units_);
  const std::unique_ptr<UnitsInFiles> source = units_from_files(*arena);
  for (const int unit : units_) static_cast<void>(source->bytes(unit));
  test_world().barrier();
  if (test_world().rank() == 0) {
    std::fstream file(model() / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    for (const CheckpointEntry& entry : index_.entries) {
      if (entry.encoding < 0) continue;
      file.seekg(entry.begin);
      const auto other = static_cast<char>(file.get() ^ 1);
      file.seekp(entry.begin);
      file.put(other);
    }
  }
  test_world().barrier();
  EXPECT_THAT(test::error_of([&] {
                static_cast<void>(source->bytes(units_.front()));
                static_cast<void>(source->bytes(units_.back()));
              }),
              AllOf(HasSubstr("65: "), HasSubstr("model.safetensors"), HasSubstr("mlp.experts."),
                    HasSubstr("changed")));
  test_world().barrier();
}

}  // namespace
}  // namespace sluice
