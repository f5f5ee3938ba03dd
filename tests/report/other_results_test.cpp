#include "report/other_results.hpp"

#include "metrics/metrics_writer.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <cmath>

namespace sluice {
namespace {

using test::TemporaryDirectory;

/// Of an evaluation of three documents, or of a load alone.
MetricsHeader header_with(std::int64_t documents) {
  MetricsHeader header;
  header.world_size = 2;
  header.documents = documents;
  return header;
}

TEST(OtherResults, of_an_evaluation_are_its_totals_and_the_documents_of_the_highest_loss) {
  const TemporaryDirectory directory;
  MetricsWriter writer(directory / "metrics.h5", header_with(4));
  EXPECT_FALSE(read_evaluation(directory / "metrics.h5", 2)) << "nothing is evaluated yet";
  writer.append(std::vector<EvaluationRow>{
      {7, 2.0, 4.0}, {1, 5.0, 6.0}, {0, std::nan(""), std::nan("")}, {3, 3.0, 8.0}});
  writer.write_total({11, 2.5, 12.0});
  writer.close();
  const auto result = read_evaluation(directory / "metrics.h5", 2);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->documents, 4);
  EXPECT_EQ(result->tokens, 11);
  EXPECT_EQ(result->loss, 2.5);
  EXPECT_EQ(result->perplexity, 12.0);
  ASSERT_EQ(result->worst.size(), 2U);
  EXPECT_EQ(result->worst[0].document, 1);
  EXPECT_EQ(result->worst[1].document, 3);
  EXPECT_EQ(result->worst[1].tokens, 3);
}

TEST(OtherResults, of_a_load_are_what_each_rank_holds_once_it_has_finished) {
  const TemporaryDirectory directory;
  MetricsWriter writer(directory / "metrics.h5", header_with(0));
  EXPECT_TRUE(read_load(directory / "metrics.h5").empty());
  writer.write_load({{1, 2}, {1'000'000, 500'000}, {0, 0}, {0, 0}, {1.5, 0.5}});
  writer.close();
  EXPECT_FALSE(read_evaluation(directory / "metrics.h5", 2));
  EXPECT_EQ(load_text(read_load(directory / "metrics.h5")), "1.50 MB on 2 ranks in 1.50 s");
}

TEST(OtherResults, of_another_file_are_refused) {
  const TemporaryDirectory directory;
  hdf5::File file = hdf5::File::create(directory / "odd.h5");
  file.create_dataset("/evaluate/total_tokens", DType::kInt64, {2, 2});
  file.close();
  test::expect_error(ExitCode::kBadData, {"odd.h5", "total_tokens"},
                     [&] { static_cast<void>(read_evaluation(directory / "odd.h5", 2)); });
  static_cast<void>(directory.write("text.h5", "no HDF5"));
  test::expect_error(ExitCode::kBadData, {"text.h5"},
                     [&] { static_cast<void>(read_load(directory / "text.h5")); });
}

}  // namespace
}  // namespace sluice
