// The one place that knows which LibTorch this is compiled against. What only newer versions have is chosen
// here; so far 1.13 has all that is used.
#pragma once

#include <torch/version.h>

#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR < 113
#error "LibTorch 1.13 or newer is needed"
#endif
