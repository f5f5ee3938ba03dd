#include "comm/outcome.hpp"

#include "base/byte_stream.hpp"
#include "base/bytes.hpp"
#include "base/memory/memory.hpp"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <new>

namespace sluice {

std::string Outcome::to_bytes() const {
  ByteWriter out;
  out.number(static_cast<std::int64_t>(code));
  out.text(id.text());
  out.text(text);
  return out.take();
}

Outcome Outcome::from_bytes(std::string_view bytes) {
  ByteReader in(bytes);
  Outcome outcome;
  outcome.code = static_cast<ExitCode>(in.number());
  outcome.id = FailureId(in.text());
  outcome.text = in.text();
  SLUICE_ASSERT(in.at_end(), "bytes left over behind an outcome");
  return outcome;
}

Outcome current_failure() {
  try {
    throw;
  } catch (const Error& e) {
    return {e.cause(), e.what()};
  } catch (const std::bad_alloc&) {
    return {{ExitCode::kTooLittle, "base.memory"},
            fmt::format("out of memory: an allocation was refused; the machine has {} available, and a "
                        "limit on the process (load.memory_limit, ulimit) may be lower",
                        format_bytes(available_memory_bytes()))};
  } catch (const std::filesystem::filesystem_error& e) {
    return {write_failure(e.code().value()), e.what()};
  } catch (const std::exception& e) {
    return {{ExitCode::kInternal, "base.exception"}, e.what()};
  } catch (...) {
    return {{ExitCode::kInternal, "base.exception"}, "an exception of unknown type"};
  }
}

void Outcome::throw_if_failed() const {
  if (failed()) throw Error(*this, text);
}

Outcome outcome_of(const std::function<void()>& step) {
  try {
    step();
  } catch (...) {
    return current_failure();
  }
  return {};
}

}  // namespace sluice
