// The scripts of slurm/, word for word.
#pragma once

#include <string_view>

namespace sluice {

/// slurm/train.sbatch, which starts ranks with srun.
[[nodiscard]] std::string_view srun_script();
/// slurm/train-mpirun.sbatch
[[nodiscard]] std::string_view mpirun_script();

}  // namespace sluice
