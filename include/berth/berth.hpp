// SPDX-License-Identifier: MIT
#pragma once

/// All of berth that needs no driver: the core, the adaptors, devices and the host backend.
#include <berth/adaptors/failing.hpp>
#include <berth/adaptors/limiting.hpp>
#include <berth/adaptors/lru.hpp>
#include <berth/adaptors/statistics.hpp>
#include <berth/core/allocator.hpp>
#include <berth/core/buffer.hpp>
#include <berth/core/copy.hpp>
#include <berth/core/diagnostics.hpp>
#include <berth/core/host_range.hpp>
#include <berth/core/packed_allocator.hpp>
#include <berth/core/queue.hpp>
#include <berth/device/device.hpp>
#include <berth/device/registry.hpp>
#include <berth/host/allocator.hpp>
#include <berth/host/framework.hpp>
