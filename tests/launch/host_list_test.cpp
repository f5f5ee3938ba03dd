#include "launch/host_list.hpp"

#include "base/error.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace sluice {
namespace {

ExitCode refusal_of(const std::string& list) {
  try {
    static_cast<void>(parse_hosts(list));
  } catch (const Error& e) {
    return e.code();
  }
  return ExitCode::kDone;
}

TEST(HostList, a_host_takes_one_rank_or_as_many_as_follow_the_colon) {
  const std::vector<LaunchHost> hosts = parse_hosts("h1,node-2.lan:3,h1:2");
  EXPECT_EQ(hosts_text(hosts), "h1:3,node-2.lan:3");
  EXPECT_EQ(total_slots(hosts), 6);
}

TEST(HostList, refuses_what_is_no_host) {
  for (const char* list : {"", "h1,,h2", "h1,", "h1:0", "h1:x", "h1:", "-h", "+n0", "^h1", "a b"})
    EXPECT_EQ(refusal_of(list), ExitCode::kUsage) << list;
}

TEST(HostList, is_taken_out_of_options_of_mpirun) {
  std::vector<std::string> options{"--mca", "btl", "self", "-H", "h1,h2:2", "--oversubscribe"};
  EXPECT_EQ(hosts_text(take_hosts(options)), "h1:1,h2:2");
  EXPECT_EQ(options, (std::vector<std::string>{"--mca", "btl", "self", "--oversubscribe"}));
  EXPECT_TRUE(take_hosts(options).empty());
}

TEST(HostList, is_read_from_a_hostfile) {
  const test::TemporaryDirectory directory;
  std::ofstream(directory / "hosts") << "# three boxes\nh1\nh2 slots=2 max_slots=4  # the large one\n\n";
  std::vector<std::string> options{"--hostfile", (directory / "hosts").string()};
  EXPECT_EQ(hosts_text(take_hosts(options)), "h1:1,h2:2");
  EXPECT_TRUE(options.empty());
  std::ofstream(directory / "hosts") << "h1 cores=2\n";
  EXPECT_THROW(static_cast<void>(read_hostfile(directory / "hosts")), Error);
}

}  // namespace
}  // namespace sluice
