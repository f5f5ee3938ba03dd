// How the arenas' bytes reach the files of an exported directory: which rank writes which bytes of which
// file. Pure.
//
//   file      | header | tensor a | tensor b | tensor c ...
//   moves     | rank 0 | 0 | 1 | 2 | 0 |  1  | 2 |  1      each written by the rank that has it, at its place
//
// The plan stores the table of tensors; moves are computed on demand.
#pragma once

#include "export/export_tensors.hpp"
#include "shard/moves.hpp"
#include "shard/shard_plan.hpp"
#include "weights/weight_files.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace sluice {

/// A move to a written file: elements of type `dtype` at byte `offset`, made from those of a rank's arena, or
/// of its persistent buffers; with a source, from element `file` of that entry of ExportPlan::source() on; of
/// codes, from element `file` of the published weight on; or all scales of a weight, without an arena.
struct ExportMove : Move {
  std::int64_t offset = 0;
  DType dtype = DType::kBFloat16;
  int source = -1;
  bool is_buffer = false;  ///< whether the values come from a persistent buffer, in float32
  StoredPart part = StoredPart::kValues;
  int weight = -1;  ///< index of the weight in ExportPlan::quantised(), for codes and scales; -1: neither
  [[nodiscard]] bool is_copied() const { return source >= 0; }
  [[nodiscard]] std::int64_t bytes() const { return count * size_of(dtype); }
};

class ExportPlan {
 public:
  /// Plans files with at most `max_shard_bytes` of tensors each, except for a larger tensor. `copiers` are
  /// the ranks that can read the source's files. `shards` must outlive the plan.
  ExportPlan(const ExportContent& content, const ShardPlan& shards, std::int64_t max_shard_bytes,
             std::vector<int> copiers);

  [[nodiscard]] const std::vector<WeightFile>& files() const { return files_; }
  /// Index of the source: its files, and those of its tensors that are copied.
  [[nodiscard]] const CheckpointIndex& source() const { return source_; }
  [[nodiscard]] const ShardPlan& shards() const { return shards_; }
  [[nodiscard]] const std::vector<QuantisedWeight>& quantised() const { return quantised_; }
  /// Indices of the weights of which a file has codes or scales, ascending.
  [[nodiscard]] std::vector<int> quantised_in(int file) const;

  /// Calls `visit` with the moves that `rank` writes to a file, in the file's order, without the header.
  void for_each_move_to(int file, int rank, const std::function<void(const ExportMove&)>& visit) const;

  /// Calls `visit` with the elements of a quantised weight that `rank` owns, as moves without a place in a
  /// file.
  void for_each_owned(const QuantisedWeight& weight, int rank,
                      const std::function<void(const ExportMove&)>& visit) const;

  /// Error(kInternal) unless every byte behind the header of every file is written exactly once.
  void check_coverage() const;

  [[nodiscard]] std::int64_t tensor_count() const { return static_cast<std::int64_t>(tensors_.size()); }
  /// Bytes of all files, headers included; bytes of all tensors; and bytes of those copied from the source.
  [[nodiscard]] std::int64_t file_bytes() const;
  [[nodiscard]] std::int64_t tensor_bytes() const;
  [[nodiscard]] std::int64_t copied_bytes() const;

 private:
  /// Origin of a written tensor's values. Its place is in files_, in the same order.
  struct Origin {
    KeyTarget target;
    int source = -1;
    StoredPart part = StoredPart::kValues;
    int weight = -1;
  };
  void visit_owned(const SafetensorsEntry& entry, const KeyTarget& target, int rank,
                   const std::function<void(const ExportMove&)>& visit) const;
  void visit_quantised(const SafetensorsEntry& entry, const Origin& origin, int rank,
                       const std::function<void(const ExportMove&)>& visit) const;
  void visit_copied(const SafetensorsEntry& entry, const Origin& origin, std::size_t index, int rank,
                    const std::function<void(const ExportMove&)>& visit) const;

  const ShardPlan& shards_;
  std::vector<int> copiers_;
  CheckpointIndex source_;
  std::vector<WeightFile> files_;
  std::vector<std::size_t> first_;  ///< index of each file's first tensor
  std::vector<Origin> tensors_;
  std::vector<QuantisedWeight> quantised_;
};

}  // namespace sluice
