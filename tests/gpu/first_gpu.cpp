// The tests of this program compute on the first GPU; jobs choose theirs by device.kind.
#include "device/devices.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

class FirstGpu final : public testing::Environment {
 public:
  void SetUp() override { use_gpu(0); }
};

// GoogleTest owns and deletes it.
const auto* const kFirstGpu = testing::AddGlobalTestEnvironment(new FirstGpu);

}  // namespace
}  // namespace sluice
