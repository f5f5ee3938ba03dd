// Prints, on the first of the ranks that it runs on, how many parameters the model in argv[1] has.
#include "comm/mpi/mpi_environment.hpp"
#include "model/architecture.hpp"

#include <cstdio>

int main(int, char** argv) {
  sluice::MpiEnvironment mpi;
  const sluice::ModelDescription model = sluice::describe_published_model(argv[1]);
  if (mpi.world().rank() == 0)
    std::printf("%lld parameters on %d ranks\n", static_cast<long long>(model.manifest.parameter_count()),
                mpi.world().size());
}
