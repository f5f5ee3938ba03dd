// Work on memory that is no tensor, on this process's threads.
#pragma once

#include <cstdint>
#include <functional>

namespace sluice::ops {

/// Calls work(begin, end) for parts of [0, count) that together are all of it, threads sharing them. A part
/// has at least `least` but for the last one; where the cuts are depends on the number of threads.
void share_work(std::int64_t count, std::int64_t least,
                const std::function<void(std::int64_t begin, std::int64_t end)>& work);

}  // namespace sluice::ops
