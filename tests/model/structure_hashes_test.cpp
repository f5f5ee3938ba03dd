// Saved steps name the structure hash of their model: those of models that are known stay as they are.
#include "model/architecture.hpp"
#include "support/source_folder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace sluice {
namespace {

TEST(StructureHashes, of_known_models_stay_as_they_are) {
  const std::filesystem::path folder = fixture_folder();
  const auto known = nlohmann::json::parse(std::ifstream(folder / "structure_hashes.json"));
  ASSERT_FALSE(known.empty());
  for (const auto& [directory, hash] : known.items())
    EXPECT_EQ(describe_model(folder / directory, DType::kBFloat16).manifest.structure_hash().hex(),
              hash.get<std::string>())
        << directory;
}

}  // namespace
}  // namespace sluice
