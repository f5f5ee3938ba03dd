#include "model/blocks/swiglu.hpp"

namespace sluice::blocks {

std::vector<BlockTensor> swiglu_tensors(const SwigluNames& names, std::int64_t width, std::int64_t hidden,
                                        Role role) {
  return {{names.gate_proj, {width, hidden}, role},
          {names.up_proj, {width, hidden}, role},
          {names.down_proj, {hidden, width}, role}};
}

}  // namespace sluice::blocks
