// What a test on several ranks needs beside GoogleTest.
#pragma once

#include "comm/mpi/mpi_environment.hpp"

namespace sluice::test {

/// MPI, as started by the test program's main.
[[nodiscard]] MpiEnvironment& mpi_environment();

/// All ranks. Every rank runs the same tests in the same order.
[[nodiscard]] inline Communicator& test_world() { return mpi_environment().world(); }

}  // namespace sluice::test
