// In place of src/ops/cpu/tiles/block.hpp: work is shared out, and nothing is multiplied.
#pragma once

#define SLUICE_TILES

namespace sluice::ops::cpu::tiles {

struct Registers {
  Registers() {}
};

}  // namespace sluice::ops::cpu::tiles
