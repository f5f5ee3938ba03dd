#include "job/prepare/device_choice.hpp"

#include "base/error.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

Gpu gpu(const std::string& name, const std::string& identity) { return {name, identity, "9.0", 80, false}; }

/// A machine with that many GPUs, "NODE.0" and so on.
Gpus machine(const std::string& node, int count, const std::string& name = "H100") {
  Gpus gpus;
  for (int i = 0; i < count; ++i) gpus.list.push_back(gpu(name, node + "." + std::to_string(i)));
  if (count == 0) gpus.lack = "no driver";
  return gpus;
}

TEST(DeviceChoice, a_rank_takes_the_gpu_of_its_number) {
  EXPECT_EQ(claim_device(machine("a", 4), 2).index, 2);
  EXPECT_EQ(claim_device(machine("a", 4), 2).gpu.identity, "a.2");
}

TEST(DeviceChoice, a_rank_takes_the_only_one_it_sees) {
  EXPECT_EQ(claim_device(machine("a", 1), 2).index, 0);
}

TEST(DeviceChoice, a_rank_beyond_the_gpus_has_none) {
  const DeviceClaim claim = claim_device(machine("a", 2), 2);
  EXPECT_EQ(claim.index, -1);
  EXPECT_EQ(claim.visible, 2);
}

TEST(DeviceChoice, auto_and_cuda_take_gpus_where_every_rank_has_one) {
  const std::vector<DeviceClaim> claims{claim_device(machine("a", 2), 0), claim_device(machine("a", 2), 1),
                                        claim_device(machine("b", 1), 0)};
  for (const DeviceKind wanted : {DeviceKind::kAuto, DeviceKind::kCuda}) {
    const DeviceChoice choice = choose_devices(wanted, claims, std::vector<int>{0, 0, 1});
    EXPECT_EQ(choice.kind, DeviceKind::kCuda);
    EXPECT_EQ(device_text(choice), "3 of H100, one a rank");
  }
}

TEST(DeviceChoice, cpu_is_taken_whatever_there_is) {
  const std::vector<DeviceClaim> claims{claim_device(machine("a", 2), 0)};
  const DeviceChoice choice = choose_devices(DeviceKind::kCpu, claims, std::vector<int>{0});
  EXPECT_EQ(choice.kind, DeviceKind::kCpu);
  EXPECT_EQ(device_text(choice), "CPU");
}

TEST(DeviceChoice, auto_is_the_cpu_where_no_rank_sees_a_gpu_and_cuda_an_error) {
  const std::vector<DeviceClaim> claims(2, claim_device(machine("a", 0), 0));
  const std::vector<int> nodes{0, 0};
  const DeviceChoice choice = choose_devices(DeviceKind::kAuto, claims, nodes);
  EXPECT_EQ(choice.kind, DeviceKind::kCpu);
  EXPECT_THAT(device_text(choice),
              testing::AllOf(testing::StartsWith("CPU, "), testing::HasSubstr("no driver")));
  test::expect_error(ExitCode::kTooLittle, {"device.kind is \"cuda\"", "no driver"},
                     [&] { static_cast<void>(choose_devices(DeviceKind::kCuda, claims, nodes)); });
}

TEST(DeviceChoice, refusals_name_ranks_and_a_way_out) {
  const auto refuse = [](const std::vector<DeviceClaim>& claims, const std::vector<int>& nodes,
                         const std::vector<std::string>& parts) {
    for (const DeviceKind wanted : {DeviceKind::kAuto, DeviceKind::kCuda})
      test::expect_error(ExitCode::kTooLittle, parts,
                         [&] { static_cast<void>(choose_devices(wanted, claims, nodes)); });
  };
  const DeviceClaim first = claim_device(machine("a", 2), 0), none = claim_device(machine("b", 0), 0);
  refuse({first, none, none}, {0, 1, 1},
         {"rank 0 can", "ranks 1, 2 cannot: no driver", "device.kind = \"cpu\""});
  refuse({first, claim_device(machine("a", 2), 1), claim_device(machine("a", 2), 2)}, {0, 0, 0},
         {"3 ranks", "machine of rank 2", "2 GPUs"});
  refuse({first, first}, {0, 0}, {"ranks 0, 1 ", "same GPU (H100)", "--gpus-per-task=1"});
  refuse({first, claim_device(machine("b", 1, "GB10"), 0)}, {0, 1},
         {"GB10 (compute capability 9.0) (rank 1)", "different kinds"});
}

}  // namespace
}  // namespace sluice
