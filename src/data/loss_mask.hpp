// Loss mask of a token file: dataset `loss_mask`, any integer type or h5py's boolean, of the shape of
// `tokens`.
#pragma once

#include "data/batch.hpp"
#include "io/hdf5.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Loss mask of a token file.
class LossMask {
 public:
  [[nodiscard]] static bool is_in(const hdf5::File& file);

  /// Opens the mask. Error(kBadData) if it holds neither integers nor booleans, has another shape than
  /// `tokens`, or was not written to its end.
  LossMask(const hdf5::File& file, const std::vector<std::int64_t>& tokens);

  /// Changes marks[i] from kInside to kMasked if the mask is 0 at the i-th of the `tokens` in the dataset,
  /// row-major. Error(kBadData) with the place of a value that is neither 0 nor 1.
  void mark(const hdf5::Hyperslab& tokens, std::span<TokenMark> marks) const;

 private:
  hdf5::Dataset mask_;
  std::string file_name_;
};

}  // namespace sluice
