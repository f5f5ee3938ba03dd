#include "comm/mpi/home.hpp"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace sluice {

void ensure_home() {
  if (std::getenv("HOME") == nullptr && ::getpwuid(::geteuid()) == nullptr)
    setenv("HOME", "/", /*overwrite=*/0);
}

}  // namespace sluice
