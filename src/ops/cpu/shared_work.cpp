#include "ops/buffers/shared_work.hpp"

#include <ATen/Parallel.h>

namespace sluice::ops {

void share_work(std::int64_t count, std::int64_t least,
                const std::function<void(std::int64_t begin, std::int64_t end)>& work) {
  at::parallel_for(0, count, least, work);
}

}  // namespace sluice::ops
