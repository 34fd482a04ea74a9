// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/buffer.hpp>
#include <berth/core/mapping.hpp>
#include <berth/device/framework.hpp>
#include <berth/device/host_link.hpp>
#include <berth/vector/host_memory.hpp>
#include <berth/vector/location.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

/// What `Vector`, launches and `host_ptr` are made of: a vector without its element type. Not for users.
namespace berth::inline BERTH_ABI::detail {

/// What stands behind a vector on the host.
enum class VectorStorage : std::uint8_t {
  big_array,    ///< an array of scalars, which a device can share
  records,      ///< elements of the user's own type
  device_only,  ///< nothing
};

/// What a launch does with an argument.
enum class LaunchUse : std::uint8_t {
  in,     ///< reads it
  out,    ///< writes every element and reads none
  inout,  ///< any other
};

/// Bytes of a vector.
struct ByteRange {
  std::size_t nbytes;
  std::size_t byte_offset;
};

/// Host storage, a buffer for each device that has one, and where the newest bytes are.
///
/// A vector and its sub-vectors are a family: they share the host memory and keep each other current. Not
/// thread-safe; a family counts as one object.
///
/// Whatever this names as newest stays reachable until it is on the host: a failed call leaves the location
/// as it was, but for bytes that it brought home first (`both` then), and makes and frees no buffer.
class BERTH_EXPORT VectorCore {
 public:
  /// `memory.nbytes` is the size of a device-only one too.
  [[nodiscard]] static std::shared_ptr<VectorCore> make(VectorStorage storage, HostMemory memory);
  VectorCore(const VectorCore&) = delete;
  VectorCore& operator=(const VectorCore&) = delete;
  /// Brings the newest bytes home when the host memory outlives this; a failure goes to the sink. Frees the
  /// buffers.
  ~VectorCore();

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] VectorStorage storage() const noexcept { return storage_; }
  [[nodiscard]] std::size_t nbytes() const noexcept { return memory_.nbytes; }
  [[nodiscard]] const HostMemory& memory() const noexcept { return memory_; }
  [[nodiscard]] const Location& location() const noexcept { return location_; }
  [[nodiscard]] bool auto_sync() const noexcept { return auto_sync_; }
  void set_auto_sync(bool on) noexcept { auto_sync_ = on; }

  /// Null when it has none on that device.
  [[nodiscard]] Buffer* buffer(const device::Device& device) noexcept;
  /// How that buffer and the host memory hang together; absent when there is no buffer.
  [[nodiscard]] std::optional<device::LinkInfo> link(const device::Device& device) const noexcept;

  /// A part that shares the host memory.
  [[nodiscard]] Result<std::shared_ptr<VectorCore>> part(ByteRange range);
  /// Meant for that device first; makes no buffer.
  void place(const device::Device& device) noexcept { location_ = {Location::State::stale_gpu, device}; }

  [[nodiscard]] Result<void> to_device(const device::Device& device);
  [[nodiscard]] Result<void> to_host(bool force);
  [[nodiscard]] Result<void> sync();
  [[nodiscard]] Result<void> free_buffer(const device::Device& device);
  [[nodiscard]] Result<void> free_all_buffers();

  /// Before the host reads, changes, or replaces all of its bytes. Afterwards they are the newest.
  [[nodiscard]] Result<void> before_read();
  [[nodiscard]] Result<void> before_write();
  [[nodiscard]] Result<void> before_overwrite();

  /// When the transfer fails the host counts, unless it is of a part and the device has the rest newest.
  [[nodiscard]] Result<void> publish(const device::Device& device, ByteRange range);
  [[nodiscard]] Result<void> acquire(const device::Device& device, ByteRange range);

  /// Checks, transfers and marks of a launch, in this order for each argument. True: there is a buffer now
  /// that nobody has written to, for `unprepare_launch` when the launch fails.
  [[nodiscard]] Result<void> check_launch(LaunchUse use) const;
  [[nodiscard]] Result<bool> prepare_launch(const device::Device& device, LaunchUse use);
  void unprepare_launch(const device::Device& device) noexcept;
  /// What the launch was announced on, for `mark_done` and `add_launch`.
  struct Announced {
    std::uint64_t copy = 0;    ///< which of the vector's buffers
    std::uint64_t number = 0;  ///< among the launches on it
  };
  [[nodiscard]] Announced mark_launched(const device::Device& device, LaunchUse use);
  /// Marks once more, when the launch's kernels have been queued.
  void mark_done(const device::Device& device, LaunchUse use, const Announced& announced);
  /// The launch has been queued; `event` stands for its end.
  void add_launch(const device::Device& device, LaunchUse use, const Announced& announced,
                  const Event& event);

  /// The newest bytes are on the host, or can be read there; nothing of the host is mapped.
  [[nodiscard]] Result<void> bring_home();
  /// Takes a link that holds the host's bytes, and the framework that made it. `protect`: the pages are out
  /// of the host's reach while the device has the newest bytes.
  void adopt(const device::Device& device, std::shared_ptr<device::Framework> framework,
             std::unique_ptr<device::HostLink> link, bool protect);
  /// Undoes what bringing bytes home did to the location, when nothing came of it.
  void restore(const Location& location) noexcept;

  /// Host access to a range until it is closed.
  struct Access {
    berth::Access how;
    ByteRange range;
    std::size_t references;
    Mapping mapping;
    device::Device* device;  ///< on which it is mapped; null when it is not
  };
  [[nodiscard]] Result<Access*> open(berth::Access how, ByteRange range);
  [[nodiscard]] Result<void> close(Access* access) noexcept;

  /// `mapped` when the host has access to bytes of the range.
  [[nodiscard]] Result<void> check_unmapped(ByteRange range, const char* call) const;
  [[nodiscard]] ByteRange all() const noexcept { return {memory_.nbytes, 0}; }
  /// Whether the two share host memory.
  [[nodiscard]] bool overlaps(const VectorCore& other) const noexcept;

 private:
  // A launch that may still run.
  struct Launched {
    Event event;
    bool writes;
  };
  // How a wait for a device ended.
  struct Ended {
    Result<void> launches;  // the first failure of one that wrote here, told once
    Result<void> idle;      // whether the device has finished at all

    [[nodiscard]] Result<void> both() const { return launches ? idle : launches; }
  };
  // What the vector has on one device.
  struct Copy {
    Copy(const device::Device& on, std::uint64_t number) : device(on), id(number) {}
    device::Device device;
    const std::uint64_t id;                        // within the vector, never again
    Buffer own;                                    // empty when linked
    std::shared_ptr<device::Framework> framework;  // the link's, which it outlives
    std::unique_ptr<device::HostLink> link;        // null when separate
    std::vector<Launched> launches;
    std::size_t announced = 0;  // launches that are not done
    std::size_t writing = 0;    // those of them that write
    std::uint64_t last_launch = 0;
    std::uint64_t last_out = 0;  // the newest that replaces all of the bytes
    bool busy = false;           // announced work may still use it
    bool protect = false;

    [[nodiscard]] Buffer& buffer() noexcept { return link ? link->buffer() : own; }
    [[nodiscard]] device::LinkInfo info() const noexcept { return link ? link->info() : device::LinkInfo{}; }
    [[nodiscard]] bool in_place() const noexcept { return link != nullptr; }
    [[nodiscard]] Ended wait();
  };
  using Family = std::vector<VectorCore*>;

  VectorCore(VectorStorage storage, HostMemory memory, std::shared_ptr<Family> family);

  [[nodiscard]] Copy* find(const device::Device& device) const noexcept;
  // What the location names; null when there is none, as for a device that has yet to get one.
  [[nodiscard]] Copy* newest() const noexcept;
  // That of the newest announced launch, which is not done: its kernels may have written since the bytes were
  // last fetched, whatever the location says.
  [[nodiscard]] Copy* pending() const noexcept;
  // What may hold bytes that are newer than the host's; null when nothing does.
  [[nodiscard]] Copy* newer_than_host() const noexcept;
  [[nodiscard]] Result<Copy*> ensure(const device::Device& device);
  // Frees what `ensure` made after there were `count`, for a call that failed.
  void forget_since(std::size_t count) noexcept;
  [[nodiscard]] bool current_on(const device::Device& device) const noexcept;
  [[nodiscard]] bool whole(ByteRange range) const noexcept { return range.nbytes == memory_.nbytes; }
  [[nodiscard]] std::span<std::byte> host(ByteRange range) const noexcept;

  [[nodiscard]] static Result<void> check_process();
  [[nodiscard]] Result<void> check_host(const char* call) const;
  [[nodiscard]] Result<void> check_writable(const char* call) const;
  [[nodiscard]] Result<void> check_range(ByteRange range, const char* call) const;

  [[nodiscard]] Result<void> upload(Copy& copy, ByteRange range);
  [[nodiscard]] Result<void> download(Copy& copy, ByteRange range);
  // Brings home what is newer than the host's. Who reads may go without what a launch that is not done has
  // perhaps written.
  [[nodiscard]] Result<void> come_home(berth::Access how);
  [[nodiscard]] Result<void> release_copy(Copy& copy);
  [[nodiscard]] Result<void> move_between_devices(const device::Device& device);

  // The part of a range of a relative's that is this one's too.
  [[nodiscard]] ByteRange shared_with(const VectorCore& other, ByteRange range) const noexcept;
  [[nodiscard]] ByteRange next_unmapped(std::size_t first) const noexcept;
  [[nodiscard]] bool shows_newest(const Access& access) const noexcept;
  [[nodiscard]] Result<void> others_home(berth::Access how);
  [[nodiscard]] Result<void> host_rules(ByteRange range);
  [[nodiscard]] Result<void> download_outside(Copy& source, ByteRange range);
  [[nodiscard]] bool pending_elsewhere(const Copy& copy) const noexcept;
  void mark(Copy& copy, LaunchUse use);
  void outdate_others() noexcept;
  // The device, or the host, wrote the newest version.
  void wrote(const std::optional<device::Device>& writer) noexcept;
  void keep_written(const Access& access) noexcept;
  [[nodiscard]] Result<void> wait_in_place(ByteRange range);
  void host_wrote();

  void protect(const Copy& copy) noexcept;
  void unprotect() noexcept;
  void protect_if_owned() noexcept;

  const std::uint64_t id_;
  const VectorStorage storage_;
  HostMemory memory_;
  std::shared_ptr<Family> family_;
  Location location_;
  // The device whose announced or told write is the newest; none when it is the host's, or a relative's.
  // Moves do not change it.
  std::optional<device::Device> writer_;
  std::uint64_t last_copy_ = 0;
  bool auto_sync_ = true;
  bool protected_ = false;
  std::list<Access> accesses_;
  std::vector<std::unique_ptr<Copy>> copies_;  // last: they go before the memory does
};

}  // namespace berth::inline BERTH_ABI::detail
