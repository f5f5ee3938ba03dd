#include "launch/launcher.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(VariableWords, hand_each_variable_of_a_job_to_ranks_on_all_hosts) {
  EXPECT_THAT(variable_words({"HOME", "SCRATCH"}, {}), ElementsAre("-x", "HOME", "-x", "SCRATCH"));
  EXPECT_THAT(variable_words({}, {"-x", "OTHER"}), IsEmpty());
}

TEST(VariableWords, leave_what_the_user_passes_on) {
  const std::vector<std::string> options{"-x", "SCRATCH=/other", "--mca", "btl", "self,tcp", "-x", "A"};
  EXPECT_THAT(variable_words({"A", "HOME", "SCRATCH"}, options), ElementsAre("-x", "HOME"));
  EXPECT_THAT(variable_words({"A"}, {"--mca", "mca_base_env_list", "B"}), IsEmpty());
  ::setenv("OMPI_MCA_mca_base_env_list", "B", 1);
  EXPECT_THAT(variable_words({"A"}, {}), IsEmpty());
  ::unsetenv("OMPI_MCA_mca_base_env_list");
}

}  // namespace
}  // namespace sluice
