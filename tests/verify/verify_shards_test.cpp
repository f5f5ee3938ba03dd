#include "verify/verify_shards.hpp"

#include "base/clock.hpp"
#include "export/synthesize.hpp"
#include "io/file.hpp"
#include "io/safetensors.hpp"
#include "load/buffer_load.hpp"
#include "shard/initial_values.hpp"
#include "support/mpi_test.hpp"
#include "verify/arena_digest.hpp"
#include "verify/checkpoint_content.hpp"
#include "weights/tiny_model.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <functional>
#include <numeric>
#include <optional>
#include <thread>

namespace sluice {
namespace {

using test::test_world;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// A checkpoint of several files in a directory of rank 0 that every rank sees.
class Checkpoint {
 public:
  Checkpoint(const test::TinyModel& model, ExpertLayout experts)
      : Checkpoint(model, [&](const KeyMap& keys, const fs::path& path) {
          synthesize_checkpoint(
              keys, path,
              {.seed = 11, .max_shard_bytes = keys.manifest().parameter_count() / 4, .experts = experts});
        }) {}
  /// Rank 0 calls `write` to make the directory.
  Checkpoint(const test::TinyModel& model, const std::function<void(const KeyMap&, const fs::path&)>& write)
      : manifest_(test::manifest_of(model)) {
    if (test_world().rank() == 0) own_.emplace();
    path_ = fs::path(test_world().broadcast_text(own_ ? own_->path().string() : "", 0)) / "model";
    if (own_) write(KeyMap(manifest_), path_);
    test_world().barrier();
  }
  ~Checkpoint() noexcept(false) {
    if (std::uncaught_exceptions() == 0) test_world().barrier();
  }
  [[nodiscard]] const fs::path& path() const { return path_; }
  [[nodiscard]] const ParameterManifest& manifest() const { return manifest_; }
  /// Overwrites an element of a tensor's bytes in its file, once every rank has read what it read before.
  void write(const std::string& tensor, std::int64_t element, std::uint16_t bits) const {
    test_world().barrier();
    if (own_) {
      const CheckpointIndex index = read_checkpoint_index(path_);
      const auto entry = std::ranges::find(index.entries, tensor, &CheckpointEntry::name);
      const std::string name = index.files[static_cast<std::size_t>(entry->file)].name;
      OutputFile::open(path_ / name).write_at(entry->begin + element * 2, std::as_bytes(std::span(&bits, 1)));
    }
    test_world().barrier();
  }

 private:
  ParameterManifest manifest_;
  std::optional<test::TemporaryDirectory> own_;
  fs::path path_;
};

/// This rank's arena, filled element by element as the files say; each set of ranks has all elements.
class Filled {
 public:
  Filled(const Checkpoint& checkpoint, DType arena, int sets = 1)
      : checkpoint_(checkpoint),
        shards_(layouts_, {test_world().size() / sets, 1, sets}),
        weights_(shards_, sets_.own().rank(), arena, MemoryKind::kPrivate, "weights") {
    const auto units = test::place_directly(
        index_, checkpoint.manifest(), layouts_, arena, [&](const CheckpointEntry& entry) {
          std::vector<std::byte> bytes(static_cast<std::size_t>(entry.bytes));
          InputFile::open(checkpoint.path() / index_.files[static_cast<std::size_t>(entry.file)].name)
              .read_at(entry.begin, bytes);
          return bytes;
        });
    std::ranges::copy(test::arena_of(units, shards_, weights_.rank(), arena), weights_.data());
    load_buffers(test_world(), index_, match_checkpoint(index_, keys_, arena), checkpoint.path(), weights_);
  }

  VerifyReport verify(const VerifyOptions& options = {}) const {
    const CheckpointMatch match = match_checkpoint(index_, keys_, weights_.dtype());
    return verify_shards(sets_, weights_, checkpoint_.manifest(), index_, match, checkpoint_.path(), options);
  }
  [[nodiscard]] std::string error(const VerifyOptions& options = {}) const {
    return test::error_of([&] { static_cast<void>(verify(options)); });
  }

  [[nodiscard]] int owner(const std::string& tensor, std::int64_t element) const {
    return shards_.owner(unit_of(tensor), place(tensor, element));
  }
  /// Turns a bit of an element over, in the arena of the rank of the last set that owns it.
  void flip(const std::string& tensor, std::int64_t element, int bit) {
    const int unit = unit_of(tensor);
    const std::int64_t at = place(tensor, element);
    if (!sets_.is_last() || shards_.owner(unit, at) != weights_.rank()) return;
    std::byte* data = weights_.unit_data(unit) +
                      (at - shards_.owned(unit, weights_.rank()).begin) * size_of(weights_.dtype());
    data[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  /// Turns a bit of a float32 element over, in the copy of the last rank.
  void flip_copy(const std::string& name, std::int64_t element, int bit) {
    if (test_world().rank() + 1 < test_world().size()) return;
    float& value = weights_.buffers()[layouts_.buffer_of(tensor(name))->offset + element];
    value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ std::uint32_t{1} << bit);
  }
  /// Whether a shard ends inside a digest block of the embedding.
  [[nodiscard]] bool cuts_a_block() const {
    const int unit = unit_of(kEmbedding);
    return (shards_.owned(unit, 0).end - place(kEmbedding, 0)) * 2 % 4096 != 0;
  }

  static inline const std::string kEmbedding = "model.embed_tokens.weight";

 private:
  [[nodiscard]] int tensor(const std::string& name) const { return *checkpoint_.manifest().find(name); }
  [[nodiscard]] int unit_of(const std::string& name) const { return layouts_.unit_of(tensor(name)); }
  /// In the unit's buffer.
  [[nodiscard]] std::int64_t place(const std::string& name, std::int64_t element) const {
    return layouts_.placement_of(tensor(name)).place_of(element);
  }

  const Checkpoint& checkpoint_;
  const KeyMap keys_{checkpoint_.manifest()};
  const UnitLayouts layouts_ = make_unit_layouts(checkpoint_.manifest());
  const ShardPlan shards_;
  const RankSets sets_{test_world(), shards_.dims()};
  const CheckpointIndex index_ = share_checkpoint_index(test_world(), checkpoint_.path());
  ShardArena weights_;
};

/// 5 experts and 515 rows of 128 bytes: cuts fall inside experts and inside blocks of 4 KiB.
const test::TinyModel kModel{.layers = 2, .experts = 5, .vocabulary = 515, .joined_groups = 2};

test::TinyModel stored_in(DType dtype) {
  test::TinyModel model = kModel;
  model.dtype = dtype;
  return model;
}

TEST(VerifyShards, finds_the_content_of_the_files_in_every_layout_and_training_type) {
  for (const ExpertLayout experts : {ExpertLayout::kPerExpert, ExpertLayout::kFused}) {
    for (const DType stored : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
      const Checkpoint checkpoint(stored_in(stored), experts);
      const CheckpointIndex index = read_checkpoint_index(checkpoint.path());
      const CheckpointContent content = read_content(index, checkpoint.path(), &checkpoint.manifest(), {});
      for (const DType arena : {DType::kFloat32, stored}) {
        if (arena == DType::kFloat16) continue;
        const Filled filled(checkpoint, arena);
        EXPECT_TRUE(test_world().size() == 1 || filled.cuts_a_block());
        const VerifyReport report = filled.verify();
        EXPECT_EQ(report.content, content.digest());
        EXPECT_EQ(report.tensors, std::ssize(content.tensors));
        EXPECT_EQ(report.non_finite, 0);
      }
    }
  }
}

TEST(VerifyShards, compares_transposed_experts_and_tells_the_content_of_the_files) {
  test::TinyModel model = kModel;
  model.transposed = true;
  const Checkpoint checkpoint(model, ExpertLayout::kFused);
  const CheckpointIndex index = read_checkpoint_index(checkpoint.path());
  const CheckpointContent content = read_content(index, checkpoint.path(), &checkpoint.manifest(), {});
  for (const DType arena : {DType::kFloat32, DType::kBFloat16}) {
    Filled filled(checkpoint, arena);
    const VerifyReport report = filled.verify();
    EXPECT_EQ(report.content, content.digest());
    EXPECT_EQ(report.tensors, std::ssize(content.tensors));
  }
  Filled filled(checkpoint, DType::kBFloat16);
  filled.flip("model.layers.1.mlp.experts.down_proj", 64 * 48 * 3 + 100, 3);
  EXPECT_THAT(filled.error(), HasSubstr("model.layers.1.mlp.experts.3.down_proj.weight"));
}

/// One file in which all experts' gates are a tensor, and all their ups; each element has another value.
void write_with_gates_apart(const KeyMap& keys, const fs::path& path) {
  std::vector<SafetensorsEntry> entries;
  for (const PublishedTensor& tensor : keys.published(ExpertLayout::kFused)) {
    std::vector<std::int64_t> shape = tensor.target.shape;
    const std::size_t joined = tensor.name.find("gate_up_proj");
    if (joined != std::string::npos) shape[1] /= 2;
    const std::string stem = tensor.name.substr(0, joined);
    if (joined == std::string::npos) entries.push_back({stem, DType::kBFloat16, shape, 0, 0});
    for (const char* projection : {"gate_proj", "up_proj"})
      if (joined != std::string::npos) entries.push_back({stem + projection, DType::kBFloat16, shape, 0, 0});
  }
  std::string bytes = make_safetensors_header(entries, {});
  const auto end = static_cast<std::size_t>(entries.back().begin + entries.back().bytes);
  for (std::uint32_t i = 0; bytes.size() < end; ++i) {
    const auto value = static_cast<std::uint16_t>(i * 2654435761u >> 18);  // a hash, and finite
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  fs::create_directory(path);
  test::write_file(path / "model.safetensors", bytes);
}

TEST(VerifyShards, follows_entries_that_lie_in_blocks_of_a_tensor) {
  const Checkpoint checkpoint(kModel, write_with_gates_apart);
  const CheckpointIndex index = read_checkpoint_index(checkpoint.path());
  for (const DType arena : {DType::kBFloat16, DType::kFloat32}) {
    Filled filled(checkpoint, arena);
    EXPECT_EQ(filled.verify().content,
              read_content(index, checkpoint.path(), &checkpoint.manifest(), {}).digest());
    filled.flip("model.layers.0.mlp.experts.gate_up_proj", (2 * 2 + 1) * 48 * 64, 15);
    EXPECT_THAT(filled.error(), HasSubstr("\n    model.layers.0.mlp.experts.2.up_proj.weight (model.safet"));
  }
}

TEST(VerifyShards, compares_in_the_coarser_type_of_the_arena) {
  for (const DType stored : {DType::kFloat32, DType::kFloat16}) {
    const Checkpoint checkpoint(stored_in(stored), ExpertLayout::kPerExpert);
    Filled filled(checkpoint, DType::kBFloat16);
    EXPECT_EQ(filled.error(), "");
    filled.flip("lm_head.weight", 7, 0);
    EXPECT_THAT(filled.error(), HasSubstr("lm_head.weight (model-"));
  }
}

TEST(VerifyShards, names_a_tensor_with_one_wrong_bit_on_every_rank) {
  const Checkpoint checkpoint(kModel, ExpertLayout::kFused);
  const std::int64_t last = 515 * 64 - 1;
  for (const std::int64_t element : {std::int64_t{0}, last / 2, last}) {
    Filled filled(checkpoint, DType::kBFloat16);
    filled.flip(Filled::kEmbedding, element, 3);
    const std::string error = filled.error();
    EXPECT_THAT(error, HasSubstr("70: 1 of "));
    EXPECT_THAT(error, HasSubstr("model.embed_tokens.weight (model-00001-of-0"));
    const bool alone = test_world().size() == 1;
    EXPECT_THAT(error, HasSubstr(alone ? "owned by rank 0" : "owned by ranks 0"));
  }
}

TEST(VerifyShards, names_the_expert_and_its_owner) {
  const Checkpoint checkpoint(kModel, ExpertLayout::kFused);
  Filled filled(checkpoint, DType::kFloat32);
  const std::string fused = "model.layers.1.mlp.experts.gate_up_proj";
  const std::int64_t up_of_expert_4 = (4 * 2 + 1) * 48 * 64 + 5;
  filled.flip(fused, up_of_expert_4, 30);
  const std::string error = filled.error();
  EXPECT_THAT(error, HasSubstr("model.layers.1.mlp.experts.4.up_proj.weight (model-"));
  EXPECT_THAT(error, HasSubstr(fmt::format("{}\n", filled.owner(fused, up_of_expert_4))));
}

TEST(VerifyShards, finds_bits_below_the_precision_of_the_files) {
  const Checkpoint checkpoint(kModel, ExpertLayout::kPerExpert);
  Filled filled(checkpoint, DType::kFloat32);
  filled.flip("model.norm.weight", 63, 0);
  EXPECT_THAT(filled.error(), HasSubstr("\n    model.norm.weight (model-"));
}

TEST(VerifyShards, names_a_tensor_that_ranks_hold_whole_and_the_rank_whose_copy_differs) {
  test::TinyModel model = kModel;
  model.whole_tensors = true;
  const Checkpoint checkpoint(model, ExpertLayout::kPerExpert);
  const CheckpointIndex index = read_checkpoint_index(checkpoint.path());
  const CheckpointContent content = read_content(index, checkpoint.path(), &checkpoint.manifest(), {});
  for (const int sets : {1, test_world().size()}) {
    const VerifyReport report = Filled(checkpoint, DType::kBFloat16, sets).verify();
    EXPECT_EQ(report.content, content.digest());
    EXPECT_EQ(report.tensors, std::ssize(content.tensors));
    // One that the file has in float32, and one in bfloat16, whose low bits the file lacks.
    for (const char* name :
         {"model.layers.1.mlp.gate.e_score_correction_bias", "model.layers.0.self_attn.A_log"}) {
      Filled filled(checkpoint, DType::kBFloat16, sets);
      filled.flip_copy(name, 3, 0);
      const std::string of_last = fmt::format("in the copies of rank {}\n", test_world().size() - 1);
      EXPECT_THAT(filled.error(), AllOf(HasSubstr(" 1 of "), HasSubstr(name), HasSubstr(of_last)));
    }
  }
}

TEST(VerifyShards, finds_a_file_that_was_changed) {
  const Checkpoint checkpoint(kModel, ExpertLayout::kPerExpert);
  const Filled filled(checkpoint, DType::kBFloat16);
  checkpoint.write("model.layers.0.mlp.experts.3.down_proj.weight", 40, 0x1234);
  EXPECT_THAT(filled.error(), HasSubstr("\n    model.layers.0.mlp.experts.3.down_proj.weight (model-"));
}

TEST(VerifyShards, takes_nans_for_equal_that_a_conversion_makes_alike) {
  const Checkpoint checkpoint(kModel, ExpertLayout::kPerExpert);
  checkpoint.write("model.norm.weight", 1, 0xffa5);
  checkpoint.write("model.norm.weight", 2, 0xff80);  // minus infinity
  for (const DType arena : {DType::kFloat32, DType::kBFloat16})
    EXPECT_EQ(Filled(checkpoint, arena).verify().non_finite, 2);
}

TEST(VerifyShards, reads_every_byte_once_whoever_reads) {
  const Checkpoint checkpoint(kModel, ExpertLayout::kPerExpert);
  const Filled filled(checkpoint, DType::kBFloat16);
  std::vector<int> all(static_cast<std::size_t>(test_world().size()));
  std::iota(all.begin(), all.end(), 0);
  for (const std::vector<int>& readers : {std::vector<int>{}, all, {0}, {test_world().size() - 1}}) {
    std::int64_t read = 0;
    VerifyOptions options;
    options.readers = readers;
    options.round_bytes = 100'000;
    options.progress = [&](std::int64_t done, std::int64_t total) {
      EXPECT_LE(done, total);
      read = done;
    };
    const VerifyReport report = filled.verify(options);
    const bool reads = readers.empty() || std::ranges::count(readers, test_world().rank()) > 0;
    EXPECT_EQ(read > 0, reads);
    test_world().all_reduce_sum(std::span(&read, 1));
    EXPECT_EQ(read, report.read_bytes);
    EXPECT_EQ(read, 2 * checkpoint.manifest().parameter_count());
  }
}

TEST(VerifyShards, compares_every_copy_of_the_model_with_what_the_first_reads) {
  const int ranks = test_world().size();
  const Checkpoint checkpoint(kModel, ExpertLayout::kPerExpert);
  Filled filled(checkpoint, DType::kBFloat16, ranks);
  bool has_read = false;
  VerifyOptions options;
  options.readers = {0};
  options.round_bytes = 100'000;
  options.passes_on = ranks > 1;  // one rank has no second copy
  options.progress = [&](std::int64_t, std::int64_t) { has_read = true; };
  EXPECT_EQ(filled.verify(options).content, filled.verify().content);
  EXPECT_EQ(has_read, test_world().rank() == 0);
  checkpoint.write("model.norm.weight", 2, 0xff80);  // minus infinity
  EXPECT_THAT(filled.error(options), HasSubstr("\n    model.norm.weight (model-"));
  EXPECT_EQ(Filled(checkpoint, DType::kBFloat16, ranks).verify(options).non_finite, 1);
}

TEST(VerifyShards, names_the_rank_of_the_copy_that_differs_on_every_rank) {
  const int ranks = test_world().size();
  const Checkpoint checkpoint(kModel, ExpertLayout::kPerExpert);
  for (const bool passes_on : {false, true}) {
    if (passes_on && ranks == 1) continue;  // one rank has no second copy
    Filled filled(checkpoint, DType::kBFloat16, ranks);
    filled.flip("lm_head.weight", 7, 0);
    EXPECT_THAT(
        filled.error({.readers = {0}, .passes_on = passes_on}),
        AllOf(HasSubstr("lm_head.weight (model-"), HasSubstr(fmt::format("owned by rank {}\n", ranks - 1))));
  }
}

TEST(VerifyShards, may_take_longer_than_the_limit_of_one_exchange) {
  const Checkpoint checkpoint(kModel, ExpertLayout::kPerExpert);
  const Filled filled(checkpoint, DType::kBFloat16);
  const Stopwatch watch;
  constexpr double kLimit = 2;
  VerifyOptions options;
  options.readers = {0};
  options.round_bytes = 2 * checkpoint.manifest().parameter_count() / 8;
  options.progress = [&](std::int64_t done, std::int64_t total) {
    const double due = 1.5 * kLimit * static_cast<double>(done) / static_cast<double>(total);
    std::this_thread::sleep_for(std::chrono::duration<double>(due - watch.seconds()));
  };
  test_world().set_deadline("verify", kLimit);
  EXPECT_NO_THROW(static_cast<void>(filled.verify(options)));
  EXPECT_GT(watch.seconds(), kLimit);
  test_world().set_deadline("test", 60);
}

/// The digest of a training's frozen weights, all but the head, on the ranks of `comm`; with a bit of rank
/// 0's changed.
Digest frozen_digest(Communicator& comm, bool is_changed = false) {
  ParameterManifest manifest = test::manifest_of(kModel);
  for (int tensor = 0; tensor < static_cast<int>(manifest.tensors().size()); ++tensor)
    if (manifest[tensor].role != Role::kHead) manifest.freeze(tensor);
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const ShardPlan shards(layouts, {comm.size(), comm.size()});
  ShardArena weights(shards, comm.rank(), DType::kBFloat16, MemoryKind::kPrivate, "weights");
  initialize_shards(weights, manifest, 0.1F, 3);
  if (is_changed && comm.rank() == 0)
    weights.data()[shards.trained_elements(0) * size_of(DType::kBFloat16)] ^= std::byte{1};
  return FrozenDigest(comm, weights, manifest).sum();
}

TEST(FrozenDigest, is_the_same_for_every_number_of_ranks_and_changes_with_a_bit) {
  const auto alone = test_world().split(test_world().rank(), 0);
  EXPECT_EQ(frozen_digest(test_world()), frozen_digest(*alone));
  EXPECT_NE(frozen_digest(test_world(), /*is_changed=*/true), frozen_digest(*alone));
}

}  // namespace
}  // namespace sluice
