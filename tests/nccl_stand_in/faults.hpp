// What the stand-in for NCCL does wrong on demand.
#pragma once

#include <string_view>

namespace sluice::stand_in {

/// True where SLUICE_STAND_IN_FAULT asks for `fault` on that rank of a communicator (-1: whatever the rank),
/// at the nth time that the process asks about it. The variable is a list, with commas, of FAULT:RANK or
/// FAULT:RANK:N, N being 1 unless given:
///   identifier-hang  ncclGetUniqueId does not return      init-error     a communicator cannot be made
///   init-hang        a communicator is never ready        init-block     making one does not return
///   hang             a group never ends on the device     error          as hang, with an asynchronous error
///   launch-block     ncclGroupEnd does not return         finalize-hang  a communicator is never done
///   abort-hang       ncclCommAbort does not return
[[nodiscard]] bool asks_for(std::string_view fault, int rank);

[[noreturn]] void hang();

}  // namespace sluice::stand_in
