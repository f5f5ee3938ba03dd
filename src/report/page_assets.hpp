// Texts of page.css and page.js, which CMake compiles into the program.
#pragma once

#include <string_view>

namespace sluice {

extern const std::string_view kPageStyle, kPageScript;

}  // namespace sluice
