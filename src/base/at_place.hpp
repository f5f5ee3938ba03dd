// Errors that name the place at which they happened.
#pragma once

#include "base/error.hpp"

#include <string_view>
#include <utility>

namespace sluice {

/// Calls a function and returns its result; puts `place`, such as a key of the job, before the text of an
/// Error that it throws. Not around collective calls, whose errors are of a type of their own.
template <class Function>
decltype(auto) at_place(std::string_view place, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const Error& error) {
    fail(error.cause(), "{}: {}", place, error.what());
  }
}

}  // namespace sluice
