// SPDX-License-Identifier: MIT
#include <berth/io/descriptor.hpp>
#include <berth/io/system.hpp>

#include <unistd.h>

namespace berth::inline BERTH_ABI::io {

static_assert(sizeof(off_t) == 8, "files over 2 GiB: compile with -D_FILE_OFFSET_BITS=64");

const System posix{&::pread, &::pwrite};

// Linux has closed the descriptor even when it says EINTR; whoever must know of a failure syncs first.
void Descriptor::close() noexcept { ::close(fd_); }

}  // namespace berth::inline BERTH_ABI::io
