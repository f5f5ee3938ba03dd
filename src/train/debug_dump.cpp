#include "train/debug_dump.hpp"

#include "ops/buffers/host_values.hpp"

#include <algorithm>
#include <vector>

namespace sluice {
namespace {

constexpr int kTag = 901;

/// This rank's elements of a tensor, one owned run after the other.
std::vector<float> owned_elements(const ShardValues& values, int tensor) {
  std::vector<float> out;
  values.plan().owned_runs(tensor, values.rank(), [&](const ShardPlan::OwnedRun& run) {
    const std::size_t before = out.size();
    out.resize(before + static_cast<std::size_t>(run.count));
    values.read(run.arena_begin, run.count, DType::kFloat32,
                reinterpret_cast<std::byte*>(out.data() + before));
  });
  return out;
}

/// Writes another rank's elements, as owned_elements() made them, to their places in the tensor.
void place(const ShardPlan& plan, int tensor, int rank, const float* values, float* whole) {
  plan.owned_runs(tensor, rank, [&](const ShardPlan::OwnedRun& run) {
    std::copy_n(values, run.count, whole + run.tensor_begin);
    values += run.count;
  });
}

std::int64_t owned_count(const ShardPlan& plan, int tensor, int rank) {
  std::int64_t count = 0;
  plan.owned_runs(tensor, rank, [&](const ShardPlan::OwnedRun& run) { count += run.count; });
  return count;
}

}  // namespace

DebugDump::DebugDump(const RankSets& sets, const ParameterManifest& manifest,
                     const std::filesystem::path& file)
    : comm_(sets.own()), is_first_(sets.is_first()), manifest_(manifest) {
  if (sets.all().rank() == 0) file_ = hdf5::File::create(file);
}

void DebugDump::write_scalar(const std::string& path, double value) {
  if (file_) file_->create_dataset(path, DType::kFloat64, {}).write(std::span<const double>(&value, 1));
}

void DebugDump::write_tensor(const std::string& path, const at::Tensor& tensor) {
  if (!file_) return;
  const std::vector<float> elements = ops::host_values<float>(tensor);
  file_->create_dataset(path, DType::kFloat32, tensor.sizes().vec()).write(std::span(elements));
}

void DebugDump::write_shards(const std::string& group, const ShardValues& values) {
  if (!is_first_) return;
  for (const int tensor : manifest_.stored_tensors())
    if (values.holds(values.plan().layouts().unit_of(tensor)))
      write_sharded_tensor(group + "/" + manifest_.wrapped_name(manifest_[tensor].name), tensor, values);
  flush();
}

void DebugDump::write_whole(const std::string& group, const UnitLayouts& layouts,
                            std::span<const float> values) {
  for (const BufferPlace& place : layouts.buffers) {
    if (!file_ || place.offset < layouts.trained_buffers.begin) continue;
    const TensorInfo& tensor = manifest_[place.tensor];
    file_->create_dataset(group + "/" + manifest_.wrapped_name(tensor.name), DType::kFloat32, tensor.shape)
        .write(values.subspan(static_cast<std::size_t>(place.offset - layouts.trained_buffers.begin),
                              static_cast<std::size_t>(place.count)));
  }
  flush();
}

void DebugDump::write_sharded_tensor(const std::string& path, int tensor, const ShardValues& values) {
  std::vector<float> part = owned_elements(values, tensor);
  if (comm_.rank() != 0) {
    comm_.send(part.data(), static_cast<std::int64_t>(part.size() * sizeof(float)), 0, kTag).wait();
    return;
  }
  std::vector<float> whole(static_cast<std::size_t>(manifest_[tensor].element_count()));
  place(values.plan(), tensor, 0, part.data(), whole.data());
  for (int rank = 1; rank < comm_.size(); ++rank) {
    part.resize(static_cast<std::size_t>(owned_count(values.plan(), tensor, rank)));
    comm_.receive(part.data(), static_cast<std::int64_t>(part.size() * sizeof(float)), rank, kTag).wait();
    place(values.plan(), tensor, rank, part.data(), whole.data());
  }
  file_->create_dataset(path, DType::kFloat32, manifest_[tensor].shape).write(std::span<const float>(whole));
}

void DebugDump::flush() {
  if (file_) file_->flush();
}

}  // namespace sluice
