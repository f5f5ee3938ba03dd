// Shares work on plain memory among this process's threads.
#pragma once

#include <cstdint>
#include <functional>

namespace sluice::ops {

/// Calls work(begin, end) for parts that together make up [0, count), on several threads. Each part but the
/// last has at least `least` elements; where the cuts lie depends on the number of threads.
void share_work(std::int64_t count, std::int64_t least,
                const std::function<void(std::int64_t begin, std::int64_t end)>& work);

}  // namespace sluice::ops
