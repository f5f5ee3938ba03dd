// Home directory for MPI's libraries.
#pragma once

namespace sluice {

/// Sets HOME to "/" for this process and its children if neither HOME nor the list of users has a home, as in
/// a container for any user: PMIx, below Open MPI 4, reads the user's home without a check, and crashes. Must
/// be called before any thread starts.
void ensure_home();

}  // namespace sluice
