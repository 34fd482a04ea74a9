// SPDX-License-Identifier: MIT
#pragma once

#include <berth/device/host_link.hpp>
#include <berth/host_ptr/error.hpp>
#include <berth/vector/vector.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

/// Host arrays on devices without a copy.
///
/// **Lifetime.** A link lasts until `detach`, `Vector::free_buffer` or the vector's end, each of which brings
/// home what the device has newest and returns when the driver no longer touches the memory. The array is
/// kept alive until then; memory that it does not own (`BigArray::over` a span) is the caller's to keep, in
/// place. Whoever moves his elements detaches first: the link stays with the old addresses, and refuses them
/// to others. Of a device that is lost (`device_lost`) nobody knows whether it still uses the memory. It
/// stays claimed until the driver says that it does not (OpenCL, for which the call waits some seconds), or
/// for the life of the process (CUDA): a later link is refused as an overlap that nothing is left to detach
/// of.
///
/// **Memory.** The address is a multiple of 64 bytes and of the element (`BigArray::create` gives such), and
/// no byte belongs to another link, of whatever device or backend. Adjacent arrays are fine. On "Native" the
/// buffer is the memory itself, which is no link in this sense: it claims no byte, and no link is in its way.
///
/// **Synchronisation.** Drivers may keep a copy of the memory beside the host's, and many do. Bytes that were
/// written on one side are seen on the other only after the calls here, or those that `Vector`, `launching`
/// and `HostAccess` make for the caller. On a device that shares memory the same calls order the two sides,
/// and move nothing.
namespace berth::inline BERTH_ABI::host_ptr {

/// What happens where sharing is refused.
enum class Policy : std::uint8_t {
  error,  ///< `attach` fails
  copy,   ///< `attach` makes a buffer of its own, kept current by the same calls with the same results
};

/// How to attach. The environment variable `BERTH_HOST_PTR=copy` makes every attach one with copies. Null
/// with a length, and a range that wraps around, are refused under every policy.
struct Options {
  Policy policy = Policy::error;
  /// A device that keeps a copy of the memory refuses.
  bool require_shared = false;
  /// The address need only be a multiple of the element. Drivers may then copy, or write past the end.
  bool lenient = false;
  /// While the device has the newest bytes the host's pages are out of reach, so that an access without
  /// `acquire_device_writes` faults at once; one of a range opens all of them. For debugging. The array must
  /// own whole pages, and the link must not be one memory with the device's, else `unsupported`.
  bool protect = false;
};

/// Gives `vector` a buffer on `device` over its array's memory. A vector whose newest elements are on another
/// device gets them home first. On failure the vector is as it was: what a device had newest counts, although
/// it may have come home. Checked in this order: the storage, an existing buffer, the framework, the memory.
/// Of an empty vector neither this nor any other call asks the driver for something or waits for it.
///
/// Blocks for as long as the device takes to register or copy the memory. The first call for a device also
/// tries how it treats host memory.
template <class T>
[[nodiscard]] HostPtrResult<void> attach(Vector<T>& vector, const device::Device& device,
                                         const Options& options = {});

/// The same, with the array and the kind said. The array must be the vector's own, else `NotBigarrayBacked`.
template <Scalar T>
[[nodiscard]] HostPtrResult<void> install(Vector<T>& vector, const device::Device& device,
                                          const BigArray<T>& array, ScalarKind<T> kind = {},
                                          const Options& options = {});

/// A vector over `array`, attached to `device`. Nothing is copied.
template <Scalar T>
[[nodiscard]] HostPtrResult<Vector<T>> of_bigarray(const device::Device& device, ScalarKind<T> kind,
                                                   const BigArray<T>& array, const Options& options = {});
template <Scalar T>
[[nodiscard]] HostPtrResult<Vector<T>> of_bigarray(const device::Device& device, const BigArray<T>& array,
                                                   const Options& options = {}) {
  return of_bigarray(device, ScalarKind<T>{}, array, options);
}

/// How the vector's buffer on `device` hangs together with its host storage; absent when it has none there.
/// `separate` for a copy.
template <class T>
[[nodiscard]] std::optional<device::LinkInfo> host_link(const Vector<T>& vector,
                                                        const device::Device& device) {
  return vector.core() ? vector.core()->link(device) : std::nullopt;
}

/// Declares the host's elements the newest and makes them visible to launches on `device`, on any of its
/// queues, enqueued afterwards. What a device has changed and nobody has read is discarded; launches that run
/// are waited for. A vector without a buffer there gets one, with a copy.
///
/// With a range (`nbytes` at `byte_offset`) that holds for those bytes alone, and the others stay as new as
/// they were. `mapped` while a `HostAccess` covers some of them.
///
/// When the transfer fails the host's elements are the newest all the same; but of a range whose others
/// `device` has newest the device's count, whatever they are, until the call is repeated. No buffer stays
/// that was not there.
template <class T>
[[nodiscard]] HostPtrResult<void> publish_host_writes(Vector<T>& vector, const device::Device& device);
template <class T>
[[nodiscard]] HostPtrResult<void> publish_host_writes(Vector<T>& vector, const device::Device& device,
                                                      std::size_t nbytes, std::size_t byte_offset);

/// Waits for the work issued so far on `device`, on its allocator's queue and on every registered one, and
/// makes what it wrote visible in the array. Does nothing when the newest elements are the host's or another
/// device's. A kernel that failed, and whose event was given to `Launch::done`, is an error once; what the
/// device holds then is unspecified.
///
/// With a range only those bytes come home. `mapped` while a `HostAccess` covers some of them.
template <class T>
[[nodiscard]] HostPtrResult<void> acquire_device_writes(Vector<T>& vector, const device::Device& device);
template <class T>
[[nodiscard]] HostPtrResult<void> acquire_device_writes(Vector<T>& vector, const device::Device& device,
                                                        std::size_t nbytes, std::size_t byte_offset);

/// Ends the link: acquires what the device has newest, waits until the driver no longer touches the memory,
/// and gives it back. What launches wrote that were not announced is newest only after an acquire. Does
/// nothing where there is no buffer. On failure, `mapped` while a `HostAccess` lives among them, the link
/// stays: of a failed launch that wrote the vector the first detach tells, and the next one brings home
/// whatever the device holds.
///
/// A driver keeps the memory while commands use it, on queues that are not registered with the device too;
/// those their owner flushes before. For what was never flushed this waits for ever (on OpenCL the sink is
/// told after five seconds).
template <class T>
[[nodiscard]] HostPtrResult<void> detach(Vector<T>& vector, const device::Device& device);

namespace detail {

using berth::detail::ByteRange;
using berth::detail::VectorCore;

/// `element_bytes` is the element's alignment as well as its size: scalars have both alike.
[[nodiscard]] BERTH_EXPORT HostPtrResult<void> attach(VectorCore& core, const device::Device& device,
                                                      std::size_t element_bytes, const Options& options);

[[nodiscard]] BERTH_EXPORT HostPtrFailure moved_from() noexcept;

[[nodiscard]] inline HostPtrResult<void> outcome(const Result<void>& result) {
  if (result) return {};
  return HostPtrFailure(HostPtrError(result.error()));
}

}  // namespace detail

template <class T>
HostPtrResult<void> attach(Vector<T>& vector, const device::Device& device, const Options& options) {
  if (!vector.core()) return detail::moved_from();
  return detail::attach(*vector.core(), device, sizeof(T), options);
}

template <Scalar T>
HostPtrResult<void> install(Vector<T>& vector, const device::Device& device, const BigArray<T>& array,
                            ScalarKind<T> /*kind*/, const Options& options) {
  if (!vector.core()) return detail::moved_from();
  const HostMemory& memory = vector.core()->memory();
  const bool own = vector.core()->storage() == berth::detail::VectorStorage::big_array &&
                   memory.data == array.memory().data && memory.nbytes == array.nbytes();
  if (!own) return HostPtrFailure(HostPtrError(NotBigarrayBacked{vector.id()}));
  return attach(vector, device, options);
}

template <Scalar T>
HostPtrResult<Vector<T>> of_bigarray(const device::Device& device, ScalarKind<T> kind,
                                     const BigArray<T>& array, const Options& options) {
  auto vector = Vector<T>::over(array);
  if (auto installed = install(vector, device, array, kind, options); !installed) {
    return HostPtrFailure(installed.error());
  }
  return vector;
}

template <class T>
HostPtrResult<void> publish_host_writes(Vector<T>& vector, const device::Device& device) {
  return publish_host_writes(vector, device, vector.nbytes(), 0);
}
template <class T>
HostPtrResult<void> publish_host_writes(Vector<T>& vector, const device::Device& device, std::size_t nbytes,
                                        std::size_t byte_offset) {
  if (!vector.core()) return detail::moved_from();
  return detail::outcome(vector.core()->publish(device, {nbytes, byte_offset}));
}

template <class T>
HostPtrResult<void> acquire_device_writes(Vector<T>& vector, const device::Device& device) {
  return acquire_device_writes(vector, device, vector.nbytes(), 0);
}
template <class T>
HostPtrResult<void> acquire_device_writes(Vector<T>& vector, const device::Device& device, std::size_t nbytes,
                                          std::size_t byte_offset) {
  if (!vector.core()) return detail::moved_from();
  return detail::outcome(vector.core()->acquire(device, {nbytes, byte_offset}));
}

template <class T>
HostPtrResult<void> detach(Vector<T>& vector, const device::Device& device) {
  if (!vector.core()) return detail::moved_from();
  return detail::outcome(vector.core()->free_buffer(device));
}

}  // namespace berth::inline BERTH_ABI::host_ptr
