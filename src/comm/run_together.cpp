#include "comm/run_together.hpp"

#include "base/byte_stream.hpp"
#include "base/error.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace sluice {
namespace {

std::optional<Error> outcome_of(const std::function<void()>& step) {
  try {
    step();
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ExitCode::kInternal, "out of memory");
  } catch (const std::exception& error) {
    return Error(ExitCode::kInternal, error.what());
  }
  return std::nullopt;
}

std::string to_bytes(const std::optional<Error>& error) {
  ByteWriter out;
  out.number(static_cast<std::int64_t>(error ? error->code() : ExitCode::kDone));
  out.text(error ? error->what() : "");
  return out.take();
}

/// Throws unless the outcome is a success.
void rethrow(std::string_view outcome, int rank, bool is_own) {
  ByteReader in(outcome);
  const auto code = static_cast<ExitCode>(in.number());
  const std::string text = in.text();
  if (code != ExitCode::kDone) throw Error(code, is_own ? text : fmt::format("on rank {}: {}", rank, text));
}

}  // namespace

void run_together(Communicator& comm, const std::function<void()>& step) {
  const std::optional<Error> error = outcome_of(step);
  std::array<std::int64_t, 1> failures{error ? 1 : 0};
  comm.all_reduce_sum(std::span<std::int64_t>(failures));
  if (failures[0] == 0) return;
  const std::vector<std::string> outcomes = comm.all_gather_text(to_bytes(error));
  for (int rank = 0; rank < comm.size(); ++rank)
    rethrow(outcomes[static_cast<std::size_t>(rank)], rank, rank == comm.rank());
}

}  // namespace sluice
