// A home for MPI's libraries.
#pragma once

namespace sluice {

/// Sets HOME to "/" for this process and those that it starts, where neither it nor the list of users has
/// one, as in a container for any user: PMIx, beneath Open MPI 4, reads the home of a user without looking
/// whether there is one, and crashes. To be called before any thread starts.
void ensure_home();

}  // namespace sluice
