#include "data/loss_mask.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

namespace sluice {
namespace {

constexpr const char* kMaskPath = "/loss_mask";

/// Index in the dataset of element `i` of a hyperslab in row-major order. A hyperslab of several rows has
/// whole rows.
std::vector<std::int64_t> place_in(const hdf5::Hyperslab& box, std::int64_t i) {
  std::vector<std::int64_t> place = box.begin;
  for (std::size_t dim = place.size(); dim-- > 0; i /= box.count[dim]) place[dim] += i % box.count[dim];
  return place;
}

}  // namespace

bool LossMask::is_in(const hdf5::File& file) { return file.exists(kMaskPath); }

LossMask::LossMask(const hdf5::File& file, const std::vector<std::int64_t>& tokens)
    : mask_(file.dataset(kMaskPath)), file_name_(file.name()) {
  const bool has_numbers = mask_.is_integer() || mask_.is_enumeration();
  if (!has_numbers || mask_.shape() != tokens)
    fail({ExitCode::kBadData, "data.token_file"},
         "the dataset 'loss_mask' of {} has the shape {}{}; it must hold a whole number for each of the "
         "tokens {}: 1 where the token is to be learnt, else 0",
         file.name(), shape_text(mask_.shape()), has_numbers ? "" : " and holds no integers",
         shape_text(tokens));
  if (const std::string reason = mask_.unreadable_reason(); !reason.empty())
    fail({ExitCode::kBadData, "data.token_file"}, "the dataset 'loss_mask' of {} cannot be read whole: {}",
         file.name(), reason);
}

void LossMask::mark(const hdf5::Hyperslab& tokens, std::span<TokenMark> marks) const {
  std::vector<std::int64_t> values(marks.size());
  mask_.read<std::int64_t>(tokens, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != 0 && values[i] != 1)
      fail({ExitCode::kBadData, "data.token_file"},
           "loss_mask{} in {} is {}; expected 1 where the token is to be learnt, else 0",
           shape_text(place_in(tokens, static_cast<std::int64_t>(i))), file_name_, values[i]);
    if (values[i] == 0 && marks[i] == TokenMark::kInside) marks[i] = TokenMark::kMasked;
  }
}

}  // namespace sluice
