#include "export/export_plan.hpp"

#include "base/bytes.hpp"
#include "weights/tiny_model.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;

/// A checkpoint in memory: one file of random bits, everything in one element type.
struct Source {
  CheckpointIndex index;
  Bytes file;

  void add(const std::string& name, const std::vector<std::int64_t>& shape, DType dtype) {
    std::int64_t bytes = size_of(dtype);
    for (const std::int64_t size : shape) bytes *= size;
    index.entries.push_back({name, 0, dtype, shape, static_cast<std::int64_t>(file.size()), bytes});
    for (std::int64_t i = 0; i < bytes; ++i) file.push_back(static_cast<std::byte>(random()));
    index.files = {{"model.safetensors", static_cast<std::int64_t>(file.size())}};
  }
  void add_model(const KeyMap& keys, ExpertLayout layout, DType dtype) {
    for (const PublishedTensor& tensor : keys.published(layout)) add(tensor.name, tensor.target.shape, dtype);
  }
  [[nodiscard]] Bytes bytes_of(const CheckpointEntry& entry) const {
    const auto begin = file.begin() + entry.begin;
    return {begin, begin + entry.bytes};
  }

  std::mt19937 random{7};
};

/// A box, element by element.
void turn_over(const ExportMove& move, const std::byte* values, DType dtype, std::byte* out) {
  for (std::int64_t line = 0; line < move.lines; ++line)
    for (std::int64_t i = 0; i < move.length(); ++i)
      convert_elements(values + (i * move.row_stride + line) * size_of(dtype), dtype,
                       out + (line * move.line_stride + i) * size_of(move.dtype), move.dtype, 1);
}

/// What the ranks together write into the files, tensor by tensor.
std::map<std::string, Bytes> written(const ExportPlan& plan, const std::vector<Bytes>& arenas, DType dtype,
                                     const Source& source) {
  std::map<std::string, Bytes> tensors;
  for (int i = 0; i < static_cast<int>(plan.files().size()); ++i) {
    const WeightFile& file = plan.files()[static_cast<std::size_t>(i)];
    Bytes bytes(static_cast<std::size_t>(file.bytes));
    for (std::size_t rank = 0; rank < arenas.size(); ++rank)
      plan.for_each_move_to(i, static_cast<int>(rank), [&](const ExportMove& move) {
        std::byte* const out = bytes.data() + move.offset;
        if (move.is_copied())
          std::copy_n(source.file.data() +
                          plan.source().entries[static_cast<std::size_t>(move.source)].begin +
                          move.file * size_of(move.dtype),
                      move.bytes(), out);
        else if (move.is_box())
          turn_over(move, arenas[rank].data() + move.arena * size_of(dtype), dtype, out);
        else
          convert_elements(arenas[rank].data() + move.arena * size_of(dtype), dtype, out, move.dtype,
                           move.count);
      });
    for (const SafetensorsEntry& entry : file.tensors)
      tensors[entry.name] = {bytes.begin() + entry.begin, bytes.begin() + entry.begin + entry.bytes};
  }
  return tensors;
}

class ExportPlanTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> names(const ExportContent& content) const {
    std::vector<std::string> names;
    for (const ExportTensor& tensor : content.tensors) names.push_back(tensor.name);
    return names;
  }
  [[nodiscard]] std::vector<std::string> published(ExpertLayout layout) const {
    std::vector<std::string> names;
    for (const PublishedTensor& tensor : keys_.published(layout)) names.push_back(tensor.name);
    return names;
  }
  /// The ranks' arenas as a load of `source` leaves them.
  [[nodiscard]] std::vector<Bytes> arenas(const Source& source, const ShardPlan& shards, DType dtype) const {
    const auto units = test::place_directly(source.index, manifest_, layouts_, dtype,
                                            [&](const CheckpointEntry& e) { return source.bytes_of(e); });
    std::vector<Bytes> arenas;
    for (int rank = 0; rank < shards.world(); ++rank)
      arenas.push_back(test::arena_of(units, shards, rank, dtype));
    return arenas;
  }

  ParameterManifest manifest_ =
      test::manifest_of({.layers = 3, .experts = 5, .dense_layers = {1}, .joined_groups = 2});
  KeyMap keys_{manifest_};
  UnitLayouts layouts_ = make_unit_layouts(manifest_);
};

constexpr std::array kLayouts{ExpertLayout::kPerExpert, ExpertLayout::kFused};

TEST_F(ExportPlanTest, writes_back_what_was_loaded_at_any_number_of_ranks) {
  for (const ExpertLayout layout : kLayouts) {
    Source source;
    source.add_model(keys_, layout, DType::kBFloat16);
    source.add("mtp.weight", {700, 3001}, DType::kInt8);
    source.add("mtp.norm", {3}, DType::kBFloat16);
    const ExportContent content = content_like(source.index, keys_, std::nullopt);
    for (const int ranks : {1, 2, 3, 7}) {
      const ShardPlan shards(layouts_, {ranks, 1});
      std::vector<int> copiers{0};
      if (ranks > 2) copiers = {0, 1, 2};
      const ExportPlan plan(content, shards, 300'000, copiers);
      plan.check_coverage();
      EXPECT_GT(plan.files().size(), 3U);
      EXPECT_EQ(plan.copied_bytes(), 700 * 3001 + 6);
      const auto tensors = written(plan, arenas(source, shards, DType::kBFloat16), DType::kBFloat16, source);
      EXPECT_EQ(tensors.size(), source.index.entries.size());
      for (const CheckpointEntry& entry : source.index.entries)
        EXPECT_EQ(tensors.at(entry.name), source.bytes_of(entry)) << entry.name << " at " << ranks;
    }
  }
}

TEST_F(ExportPlanTest, writes_back_experts_that_are_transposed) {
  manifest_ = test::manifest_of({.layers = 2, .experts = 5, .expert_width = 17, .transposed = true});
  layouts_ = make_unit_layouts(manifest_);
  Source source;
  source.add_model(keys_, ExpertLayout::kPerExpert, DType::kBFloat16);
  EXPECT_EQ(source.index.entries[7].shape, (std::vector<std::int64_t>{5, 64, 34}));
  for (const ParallelDims dims : {ParallelDims{1, 1}, {2, 2}, {3, 1}, {7, 1}, {6, 2}}) {
    const ShardPlan shards(layouts_, dims);
    const ExportPlan plan(content_like(source.index, keys_, std::nullopt), shards, 100'000, {0});
    plan.check_coverage();
    const auto tensors = written(plan, arenas(source, shards, DType::kBFloat16), DType::kBFloat16, source);
    for (const CheckpointEntry& entry : source.index.entries)
      EXPECT_EQ(tensors.at(entry.name), source.bytes_of(entry)) << entry.name << " at " << dims.world;
  }
}

TEST_F(ExportPlanTest, the_other_expert_layout_holds_the_same_elements) {
  for (const ExpertLayout layout : kLayouts) {
    Source source;
    source.add_model(keys_, layout, DType::kBFloat16);
    const ShardPlan shards(layouts_, {3, 1});
    const std::vector<Bytes> loaded = arenas(source, shards, DType::kBFloat16);
    const ExpertLayout other =
        layout == ExpertLayout::kFused ? ExpertLayout::kPerExpert : ExpertLayout::kFused;
    const ExportPlan there(content_like(source.index, keys_, other), shards, 1'000'000, {0});
    there.check_coverage();
    Source rewritten;
    for (const auto& [name, bytes] : written(there, loaded, DType::kBFloat16, source)) {
      const KeyTarget key = std::get<KeyTarget>(keys_.resolve(name));
      rewritten.add(name, key.shape, DType::kBFloat16);
      std::ranges::copy(bytes, rewritten.file.begin() + rewritten.index.entries.back().begin);
    }
    EXPECT_NE(rewritten.index.entries.size(), source.index.entries.size());
    EXPECT_EQ(arenas(rewritten, shards, DType::kBFloat16), loaded);
  }
}

TEST_F(ExportPlanTest, rounds_master_values_to_the_files_type) {
  Source source;
  source.add_model(keys_, ExpertLayout::kFused, DType::kBFloat16);
  for (std::size_t i = 1; i < source.file.size(); i += 2) source.file[i] &= std::byte{0x3f};  // no NaN
  const ShardPlan shards(layouts_, {2, 1});
  const ExportPlan plan(content_like(source.index, keys_, std::nullopt), shards, kGiB, {0});
  EXPECT_EQ(plan.files().size(), 1U);
  EXPECT_EQ(plan.files()[0].name, "model.safetensors");
  const auto tensors = written(plan, arenas(source, shards, DType::kFloat32), DType::kFloat32, source);
  for (const CheckpointEntry& entry : source.index.entries)
    EXPECT_EQ(tensors.at(entry.name), source.bytes_of(entry)) << entry.name;
}

TEST_F(ExportPlanTest, writes_the_model_alone_without_a_source) {
  for (const ExpertLayout layout : kLayouts) {
    const ExportContent content = content_of(keys_, layout, DType::kFloat16);
    EXPECT_EQ(names(content), published(layout));
    const ShardPlan shards(layouts_, {4, 1});
    const ExportPlan plan(content, shards, kGiB, {0});
    plan.check_coverage();
    EXPECT_EQ(plan.tensor_bytes(), 2 * manifest_.parameter_count());
  }
}

TEST_F(ExportPlanTest, keeps_the_sources_names_and_types_and_leaves_out_what_follows_from_others) {
  const ParameterManifest tied = test::manifest_of({.layers = 1, .experts = 0, .tied = true});
  const KeyMap keys(tied);
  Source source;
  for (const PublishedTensor& tensor : keys.published(ExpertLayout::kFused))
    source.add("model.language_model." + tensor.name.substr(6), tensor.target.shape,
               tensor.target.shape.size() > 1 ? DType::kBFloat16 : DType::kFloat32);
  const std::vector<CheckpointEntry> model = source.index.entries;
  source.add("lm_head.weight", {512, 64}, DType::kBFloat16);
  source.add("model.layers.0.self_attn.rotary_emb.inv_freq", {16}, DType::kFloat32);
  const ExportContent content = content_like(source.index, keys, std::nullopt);
  ASSERT_EQ(content.tensors.size(), model.size());
  for (std::size_t i = 0; i < model.size(); ++i) {
    EXPECT_EQ(content.tensors[i].name, model[i].name);
    EXPECT_EQ(content.tensors[i].dtype, model[i].dtype);
  }
}

TEST_F(ExportPlanTest, rewrites_experts_in_place_under_the_sources_prefix) {
  Source source;
  for (const PublishedTensor& tensor : keys_.published(ExpertLayout::kFused))
    source.add("language_model." + tensor.name, tensor.target.shape, DType::kBFloat16);
  std::vector<std::string> expected = published(ExpertLayout::kPerExpert);
  for (std::string& name : expected) name.insert(0, "language_model.");
  EXPECT_EQ(names(content_like(source.index, keys_, ExpertLayout::kPerExpert)), expected);
}

TEST_F(ExportPlanTest, rewrites_routers_in_the_spelling_of_their_experts) {
  Source source;
  source.add_model(keys_, ExpertLayout::kFused, DType::kBFloat16);
  manifest_.set_published_experts(kMixtralExperts);
  EXPECT_EQ(names(content_like(source.index, keys_, ExpertLayout::kPerExpert)),
            published(ExpertLayout::kPerExpert));
  EXPECT_EQ(names(content_like(source.index, keys_, ExpertLayout::kFused)), published(ExpertLayout::kFused));
  const std::vector<std::string> kept = names(content_like(source.index, keys_, std::nullopt));
  EXPECT_EQ(std::ranges::count(kept, source.index.entries[5].name), 1);
  EXPECT_NE(kept, published(ExpertLayout::kFused));
}

TEST_F(ExportPlanTest, names_a_byte_that_nobody_writes) {
  const ShardPlan shards(layouts_, {2, 1});
  const ExportPlan plan(content_of(keys_, ExpertLayout::kFused, DType::kBFloat16), shards, kGiB, {0});
  Source source;
  source.add("model.visual.weight", {10}, DType::kBFloat16);
  const ExportPlan uncopied(content_like(source.index, keys_, std::nullopt), shards, kGiB, {9});
  plan.check_coverage();
  EXPECT_THAT(test::error_of([&] { uncopied.check_coverage(); }),
              testing::HasSubstr("model.safetensors is written up"));
}

}  // namespace
}  // namespace sluice
