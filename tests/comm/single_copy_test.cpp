#include "comm/mpi/single_copy.hpp"

#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace sluice {
namespace {

TEST(SingleCopy, each_version_of_open_mpi_has_a_setting_without_it) {
  for (const char* version : {"Open MPI v4.1.4", "Open MPI v3.1.0"}) {
    const auto setting = setting_without_single_copy(version);
    ASSERT_TRUE(setting) << version;
    EXPECT_EQ(setting->variable() + "=" + setting->value, "OMPI_MCA_btl_vader_single_copy_mechanism=none");
  }
  for (const char* version : {"Open MPI v5.0.3", "Open MPI v10.1rc1"}) {
    const auto setting = setting_without_single_copy(version);
    ASSERT_TRUE(setting) << version;
    EXPECT_EQ(setting->variable() + "=" + setting->value, "OMPI_MCA_smsc=^cma");
  }
  for (const char* version : {"MPICH Version: 4.1", "Open MPI", ""})
    EXPECT_FALSE(setting_without_single_copy(version)) << version;
}

TEST(SingleCopy, what_a_user_has_set_is_seen_in_the_environment_and_in_files) {
  const test::TemporaryDirectory home;
  ::setenv("HOME", home.path().c_str(), 1);
  EXPECT_FALSE(is_set_for_library("sluice_test"));
  std::filesystem::create_directory(home / ".openmpi");
  static_cast<void>(home.write(".openmpi/mca-params.conf", "# sluice_test = 1\nsluice_test_more = 1\n"));
  EXPECT_FALSE(is_set_for_library("sluice_test"));
  static_cast<void>(home.write(".openmpi/mca-params.conf", "btl = self\n  sluice_test = cma\n"));
  EXPECT_TRUE(is_set_for_library("sluice_test"));
  ::setenv("OMPI_MCA_mca_base_param_files", (home / "none").c_str(), 1);
  EXPECT_FALSE(is_set_for_library("sluice_test"));
  ::setenv("OMPI_MCA_sluice_test", "", 1);
  EXPECT_TRUE(is_set_for_library("sluice_test"));
  ::unsetenv("OMPI_MCA_sluice_test");
  ::unsetenv("OMPI_MCA_mca_base_param_files");
}

}  // namespace
}  // namespace sluice
