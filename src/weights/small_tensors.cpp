#include "weights/small_tensors.hpp"

#include "weights/checkpoint_files.hpp"

#include <array>
#include <cstring>

namespace sluice {
namespace {

constexpr std::int64_t kMostDims = 8;

}  // namespace

void SmallTensors::read(const CheckpointEntry& tensor, std::span<std::byte> bytes) {
  if (open_ != tensor.file) {
    file_ = open_source(directory_, index_.files[static_cast<std::size_t>(tensor.file)]);
    open_ = tensor.file;
    file_->advise_random();
  }
  file_->read_at(tensor.begin, bytes);
}

bool SmallTensors::may_hold_shape(const CheckpointEntry& tensor) {
  const bool is_integer = tensor.dtype == DType::kInt64 || tensor.dtype == DType::kInt32;
  return is_integer && tensor.shape.size() == 1 && tensor.shape[0] <= kMostDims;
}

std::vector<std::int64_t> SmallTensors::read_shape(const CheckpointEntry& tensor) {
  const bool is_wide = tensor.dtype == DType::kInt64;
  std::array<std::byte, kMostDims * sizeof(std::int64_t)> bytes{};
  read(tensor, std::span(bytes).first(static_cast<std::size_t>(tensor.bytes)));
  std::vector<std::int64_t> shape;
  for (std::int64_t dim = 0; dim < tensor.shape[0]; ++dim) {
    std::int64_t wide = 0;
    std::int32_t narrow = 0;
    if (is_wide)
      std::memcpy(&wide, bytes.data() + dim * 8, 8);
    else
      std::memcpy(&narrow, bytes.data() + dim * 4, 4);
    shape.push_back(is_wide ? wide : narrow);
  }
  return shape;
}

}  // namespace sluice
