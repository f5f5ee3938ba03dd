#include "report/column_names.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace sluice {

std::vector<std::string> names_of_numbers(const JoinedColumn& column) {
  std::vector<std::string> names{column.name};
  for (const std::int64_t size : column.shape) {
    std::vector<std::string> longer;
    for (const std::string& name : names)
      for (std::int64_t i = 0; i < size; ++i) longer.push_back(fmt::format("{}/{}", name, i));
    names = std::move(longer);
  }
  return names;
}

}  // namespace sluice
