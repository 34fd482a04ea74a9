// SPDX-License-Identifier: MIT
// Built twice, as two shared libraries with hidden visibility.
#include <berth/core/identity.hpp>

#include <cstdint>

extern "C" BERTH_EXPORT std::uint64_t plugin_next_instance_id() { return berth::next_instance_id().value; }
