// Texts of the scripts in slurm/.
#pragma once

#include <string_view>

namespace sluice {

/// Text of slurm/train.sbatch, which starts ranks with srun.
[[nodiscard]] std::string_view srun_script();
/// Text of slurm/train-mpirun.sbatch, which starts ranks with mpirun.
[[nodiscard]] std::string_view mpirun_script();

}  // namespace sluice
