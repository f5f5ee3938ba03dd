// The BLAS in the process that computes: the system chooses it when the program starts, and not when it is
// built.

#include "job/versions.hpp"
#include "ops/runtime/library.hpp"

namespace sluice {
namespace {

const VersionLine kBlas([] {
  const std::string threads = ops::blas_has_own_threads() ? " (slower with several threads a rank)" : "";
  return "BLAS: " + ops::blas_text() + threads;
});

}  // namespace
}  // namespace sluice
