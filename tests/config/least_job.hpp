// The shortest job file.
#pragma once

#include <string>

namespace sluice::test {

inline const std::string kMinJob = "[job]\noutput = 'r'\n[model]\npath = 'm'\n[data]\ntokens = 't'\n";

}  // namespace sluice::test
