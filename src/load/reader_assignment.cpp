#include "load/reader_assignment.hpp"

#include <map>
#include <numeric>

namespace sluice {

ReaderAssignment ReaderAssignment::rank0(int world) {
  return ReaderAssignment(std::vector<int>(static_cast<std::size_t>(world), 0));
}

ReaderAssignment ReaderAssignment::node(std::span<const int> node_of_rank) {
  std::map<int, int> first_of_node;
  std::vector<int> reader_of;
  for (const int node : node_of_rank)
    reader_of.push_back(first_of_node.emplace(node, static_cast<int>(reader_of.size())).first->second);
  return ReaderAssignment(std::move(reader_of));
}

ReaderAssignment ReaderAssignment::all(int world) {
  std::vector<int> reader_of(static_cast<std::size_t>(world));
  std::iota(reader_of.begin(), reader_of.end(), 0);
  return ReaderAssignment(std::move(reader_of));
}

std::vector<int> ReaderAssignment::readers() const {
  std::vector<int> readers;
  for (int rank = 0; rank < world(); ++rank)
    if (is_reader(rank)) readers.push_back(rank);
  return readers;
}

}  // namespace sluice
