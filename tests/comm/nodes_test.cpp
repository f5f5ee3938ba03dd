#include "comm/nodes.hpp"

#include "support/expect_error.hpp"
#include "support/mpi_test.hpp"

#include <cstdlib>
#include <string>
#include <vector>

namespace sluice {
namespace {

using test::test_world;

/// The environment's SLUICE_NODES for the time of a test.
class PretendedNodes {
 public:
  explicit PretendedNodes(const std::string& nodes) { ::setenv("SLUICE_NODES", nodes.c_str(), 1); }
  ~PretendedNodes() { ::unsetenv("SLUICE_NODES"); }
  PretendedNodes(const PretendedNodes&) = delete;
  PretendedNodes& operator=(const PretendedNodes&) = delete;
};

TEST(Nodes, ranks_of_one_machine_are_on_one) {
  EXPECT_EQ(find_nodes(test_world()), std::vector<int>(static_cast<std::size_t>(test_world().size()), 0));
}

TEST(Nodes, are_numbered_by_their_lowest_ranks) {
  const std::vector<std::string> names{"b", "b,a", "b,a,b"};
  const std::vector<int> expected{0, 1, 0};
  const auto size = static_cast<std::size_t>(test_world().size());
  const PretendedNodes nodes(names[size - 1]);
  EXPECT_EQ(find_nodes(test_world()),
            std::vector<int>(expected.begin(), expected.begin() + test_world().size()));
}

TEST(Nodes, ranks_of_one_machine_that_see_other_files_are_on_others) {
  const int world = test_world().size();
  std::vector<int> expected{0, 1, 0};
  expected.resize(static_cast<std::size_t>(world));
  EXPECT_EQ(find_nodes(test_world(), test_world().rank() == 1 ? "2049:7" : "2049:5"), expected);
  EXPECT_EQ(find_nodes(test_world(), "2049:5"), std::vector<int>(static_cast<std::size_t>(world), 0));
}

TEST(Nodes, pretended_ones_are_one_for_each_rank) {
  const PretendedNodes nodes("0,0,0,1");
  test::expect_error(ExitCode::kUsage, {"SLUICE_NODES", "4 ranks"},
                     [] { static_cast<void>(find_nodes(test_world())); });
}

}  // namespace
}  // namespace sluice
