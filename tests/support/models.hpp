// SPDX-License-Identifier: MIT
// Allocators over plain memory that count, check and refuse on demand: models of a backend, for the tests of
// what is built on the concept. They need no test framework, no exceptions and no RTTI.
//
//   Plain<SmallBuffer>     the seven operations alone; a trivially copyable handle
//   Plain<BigBuffer>       a handle of exactly PackedBuffer::capacity
//   Plain<MoveOnlyBuffer>  a handle that knows its own address and counts its moves and destructions
//   Rich<name>             every refinement, each of which can be switched off; 'a' and 'b' are two backends
//   Disk                   buffers that are runs of a temporary file
#pragma once

#include <berth/core/checks.hpp>
#include <berth/core/packed_buffer.hpp>
#include <berth/io/load.hpp>

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace models {

using namespace berth;

/// How often each operation was called. Holds only what happened, so that two can be compared whole.
using Counts = std::map<std::string, int>;

/// One call of `offset`, as the model saw it.
struct Cut {
  std::size_t nbytes;
  std::size_t byte_offset;
  bool of_view;
  friend bool operator==(const Cut&, const Cut&) = default;
};

/// A native queue or event that counts its references.
struct Native {
  std::atomic<int> references{1};

  static bool retain(void* native) noexcept {
    ++static_cast<Native*>(native)->references;
    return true;
  }
  static void release(void* native) noexcept { --static_cast<Native*>(native)->references; }
};
inline constexpr HandleKind queue_kind{"model", Native::retain, Native::release};
inline constexpr HandleKind event_kind{"model", Native::retain, Native::release};

/// What an allocator has seen and is told to do; shared by its copies. Thread-safe, except for the plain
/// members, which a test sets beforehand.
class State {
 public:
  explicit State(const char* backend) {
    info.backend = backend;
    info.instance = next_instance_id();
    info.device = {backend, 0, info.instance.value};
    info.alignment = alignof(std::max_align_t);
    info.max_bytes = std::uint64_t{1} << 30U;
  }

  AllocatorInfo info;
  std::set<InstanceId> reaches;                  ///< instances, besides its own, that `transfer` can read
  Native event;                                  ///< what `record` gives
  std::atomic<Access> mapped_for{Access::read};  ///< what the last map was for

  /// The next call of `operation`, or the one after so many more, and every later one fails.
  void refuse(const std::string& operation, Errc code, int after = 0) {
    const std::lock_guard lock(mutex_);
    refusals_[operation] = {code, after};
  }
  void refuse_nothing() {
    const std::lock_guard lock(mutex_);
    refusals_.clear();
  }
  /// Switches an optional operation off or on.
  void offer(const std::string& operation, bool offered) {
    const std::lock_guard lock(mutex_);
    if (offered)
      lacks_.erase(operation);
    else
      lacks_.insert(operation);
  }
  [[nodiscard]] bool offers(const std::string& operation) const noexcept {
    const std::lock_guard lock(mutex_);
    return !lacks_.contains(operation);
  }

  /// The calls since the last time that this was asked.
  [[nodiscard]] Counts calls() {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }
  [[nodiscard]] std::vector<Cut> cuts() {
    const std::lock_guard lock(mutex_);
    return std::exchange(cuts_, {});
  }
  [[nodiscard]] std::size_t live_blocks() const {
    const std::lock_guard lock(mutex_);
    return blocks_.size();
  }
  [[nodiscard]] int open_maps() const noexcept { return open_maps_; }

  // For the models.

  void count(const char* operation) {
    const std::lock_guard lock(mutex_);
    ++calls_[operation];
  }
  /// Counts a call; its failure when it is switched off or to be refused.
  [[nodiscard]] Result<void> enter(const char* operation) {
    const std::lock_guard lock(mutex_);
    ++calls_[operation];
    if (lacks_.contains(operation)) return fail(Error(Errc::unsupported, info.backend).in(operation));
    const auto refusal = refusals_.find(operation);
    if (refusal == refusals_.end() || refusal->second.after-- > 0) return {};
    return fail(Error(refusal->second.code, info.backend).in(operation).because("told to refuse"));
  }
  void note(const Cut& cut) {
    const std::lock_guard lock(mutex_);
    cuts_.push_back(cut);
  }
  void map_opened() { ++open_maps_; }
  void map_closed() { --open_maps_; }

  [[nodiscard]] std::byte* take(std::size_t nbytes, const BufferSpec& spec) {
    auto bytes = std::make_unique<std::byte[]>(nbytes);
    if (!spec.zero) std::memset(bytes.get(), 0xCD, nbytes);
    const std::lock_guard lock(mutex_);
    std::byte* const data = bytes.get();
    blocks_.emplace(data, Block{std::move(bytes), nbytes, spec});
    return data;
  }
  /// A free that alloc does not match is counted under a name of its own.
  void give_back(std::byte* data, std::size_t nbytes, const BufferSpec& spec) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(data);
    if (block == blocks_.end()) {
      ++calls_["free of no block"];
    } else {
      if (block->second.nbytes != nbytes || block->second.spec != spec) ++calls_["free unlike its alloc"];
      blocks_.erase(block);
    }
  }

 private:
  struct Refusal {
    Errc code;
    int after;
  };
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t nbytes;
    BufferSpec spec;
  };

  mutable std::mutex mutex_;
  Counts calls_;
  std::vector<Cut> cuts_;
  std::set<std::string> lacks_;
  std::map<std::string, Refusal> refusals_;
  std::map<std::byte*, Block> blocks_;
  std::atomic<int> open_maps_{0};
};

/// What every handle to memory holds; 32 bytes.
struct Place {
  std::byte* data = nullptr;
  std::size_t size = 0;
  InstanceId root;
  bool view = false;

  [[nodiscard]] std::size_t nbytes() const noexcept { return size; }
  [[nodiscard]] InstanceId instance() const noexcept { return root; }
  [[nodiscard]] bool is_view() const noexcept { return view; }
  [[nodiscard]] bool intact() const noexcept { return true; }
};

struct SmallBuffer : Place {};
static_assert(std::is_trivially_copyable_v<SmallBuffer>);

struct BigBuffer : Place {
  static constexpr std::uint64_t mark = 0x0123'4567'89AB'CDEF;
  std::uint64_t middle = mark;
  std::uint64_t last = mark;
  /// Whether all of it came along in every move.
  [[nodiscard]] bool intact() const noexcept { return middle == mark && last == mark; }
};
static_assert(std::is_trivially_copyable_v<BigBuffer> && sizeof(BigBuffer) == PackedBuffer::capacity);

/// What happened to the handles of one kind.
struct Traffic {
  int made = 0;
  int moved = 0;
  int destroyed = 0;
  [[nodiscard]] int alive() const noexcept { return made + moved - destroyed; }
};

class MoveOnlyBuffer : public Place {
 public:
  /// All of them; a test sets it back first. Not for several threads.
  static inline Traffic traffic;

  explicit MoveOnlyBuffer(const Place& place) noexcept : Place(place) { ++traffic.made; }
  MoveOnlyBuffer(MoveOnlyBuffer&& other) noexcept : Place(std::exchange(other.place(), {})) {
    ++traffic.moved;
  }
  ~MoveOnlyBuffer() {
    ++traffic.destroyed;
    self_ = nullptr;
  }

  /// Whether it was moved by its constructor each time, and not yet destroyed.
  [[nodiscard]] bool intact() const noexcept { return self_ == this; }

 private:
  Place& place() noexcept { return *this; }
  const MoveOnlyBuffer* self_ = this;
};

/// The seven operations that every allocator has, and no other.
template <class Buf>
class Plain {
 public:
  using buffer_type = Buf;

  explicit Plain(const char* backend = "plain") : state_(std::make_shared<State>(backend)) {}

  [[nodiscard]] State& state() const noexcept { return *state_; }

  [[nodiscard]] Result<Buf> alloc(std::size_t nbytes, const BufferSpec& spec = {}) {
    if (auto go = state().enter("alloc"); !go) return fail(go.error());
    if (nbytes > info().max_bytes) {
      return fail(Error(Errc::exceeds_device_maximum, info().backend)
                      .in("alloc")
                      .asking(nbytes)
                      .limited_to(info().max_bytes));
    }
    std::byte* const data = nbytes != 0 ? state().take(nbytes, spec) : nullptr;
    return Buf{Place{data, nbytes, info().instance, false}};
  }
  void free(Buf buf, std::size_t nbytes, const BufferSpec& spec = {}) noexcept {
    state().count("free");
    if (!buf.intact()) state().count("free of a broken handle");
    if (checks::freeable(buf, info()) && buf.data != nullptr) state().give_back(buf.data, nbytes, spec);
  }
  [[nodiscard]] Result<void> copyin(const Buf& buf, std::span<const std::byte> src) {
    if (auto go = state().enter("copyin"); !go) return go;
    if (auto ok = checks::access(buf, src.size(), 0, info(), "copyin"); !ok) return ok;
    if (!src.empty()) std::memcpy(buf.data, src.data(), src.size());
    return {};
  }
  [[nodiscard]] Result<void> copyout(std::span<std::byte> dst, const Buf& buf) {
    if (auto go = state().enter("copyout"); !go) return go;
    if (auto ok = checks::access(buf, dst.size(), 0, info(), "copyout"); !ok) return ok;
    if (!dst.empty()) std::memcpy(dst.data(), buf.data, dst.size());
    return {};
  }
  [[nodiscard]] Result<std::uintptr_t> addr(const Buf& buf) {
    if (auto go = state().enter("addr"); !go) return fail(go.error());
    return reinterpret_cast<std::uintptr_t>(buf.data);
  }
  [[nodiscard]] AllocatorInfo info() const { return state().info; }
  [[nodiscard]] Result<void> synchronize() { return state().enter("synchronize"); }

 private:
  std::shared_ptr<State> state_;
};

static_assert(Allocator<Plain<SmallBuffer>> && !OffsetAllocator<Plain<SmallBuffer>>);
static_assert(Allocator<Plain<BigBuffer>> && Allocator<Plain<MoveOnlyBuffer>>);

/// A file without a name that goes when this does.
class TemporaryFile {
 public:
  /// The first byte of `nbytes` more.
  [[nodiscard]] std::uint64_t grow(std::size_t nbytes) noexcept { return end_.fetch_add(nbytes); }
  [[nodiscard]] int fd() const noexcept { return ::fileno(file_.get()); }

  void write(std::span<const std::byte> src, std::uint64_t offset) const noexcept {
    while (!src.empty()) {
      const ssize_t n = ::pwrite(fd(), src.data(), src.size(), static_cast<off_t>(offset));
      if (n <= 0) return;
      src = src.subspan(static_cast<std::size_t>(n));
      offset += static_cast<std::uint64_t>(n);
    }
  }
  /// The bytes that there were.
  static std::size_t read(int fd, std::span<std::byte> dst, std::uint64_t offset) noexcept {
    std::size_t done = 0;
    while (done < dst.size()) {
      const ssize_t n = ::pread(fd, dst.data() + done, dst.size() - done, static_cast<off_t>(offset + done));
      if (n <= 0) break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_{std::tmpfile()};
  std::atomic<std::uint64_t> end_{0};
};

template <char name>
struct RichBuffer : Place {};

/// Every refinement. `transfer` reads its own buffers and those of the instances in `reaches`;
/// `copy_from_disk` reads the file; `extent` spills the bytes into a file of its own; an `overwrite` map
/// spoils what was there.
template <char name>
class Rich : public Plain<RichBuffer<name>> {
  using Base = Plain<RichBuffer<name>>;
  static constexpr char backend_name[] = {name, '\0'};

 public:
  using Buf = RichBuffer<name>;
  using Base::info;
  using Base::state;

  Rich() : Base(backend_name) {}

  [[nodiscard]] Result<Buf> offset(const Buf& buf, std::size_t nbytes, std::size_t byte_offset) {
    state().note({nbytes, byte_offset, buf.is_view()});
    if (auto go = state().enter("offset"); !go) return fail(go.error());
    if (auto ok = checks::access(buf, nbytes, byte_offset, info(), "offset"); !ok) return fail(ok.error());
    return Buf{{buf.data + byte_offset, nbytes, info().instance, true}};
  }
  [[nodiscard]] Result<void> transfer(const Buf& dest, const Buf& src, std::size_t nbytes) {
    if (auto go = state().enter("transfer"); !go) return go;
    if (auto ok = checks::access(dest, nbytes, 0, info(), "transfer"); !ok) return ok;
    if (!state().reaches.contains(src.instance())) {
      if (auto ok = checks::own(src, info(), "transfer"); !ok) return ok;
    }
    if (auto ok = checks::range(nbytes, 0, src.nbytes(), info().backend, "transfer"); !ok) return ok;
    std::memmove(dest.data, src.data, nbytes);
    return {};
  }
  [[nodiscard]] Result<DiskCopy> copy_from_disk(const Buf& dest, const FileExtent& extent,
                                                std::size_t nbytes) {
    if (auto go = state().enter("copy_from_disk"); !go) return fail(go.error());
    if (auto ok = checks::access(dest, nbytes, 0, info(), "copy_from_disk"); !ok) return fail(ok.error());
    if (auto ok = checks::range(nbytes, 0, extent.nbytes, info().backend, "copy_from_disk"); !ok) {
      return fail(ok.error());
    }
    const std::size_t done = TemporaryFile::read(extent.fd, {dest.data, nbytes}, extent.offset);
    if (done == nbytes) return DiskCopy{.direct = 0, .buffered = done, .unbuffered = 0};
    return fail(Error(Errc::short_read, info().backend).in("copy_from_disk").asking(nbytes).after(done));
  }
  [[nodiscard]] Result<DiskCopy> load(std::span<const LoadRange<Buf>> ranges, const LoadOptions& options) {
    if (auto go = state().enter("load"); !go) return fail(go.error());
    return io::load(*this, ranges, options);
  }
  [[nodiscard]] Result<FileExtent> extent(const Buf& buf) {
    if (auto go = state().enter("extent"); !go) return fail(go.error());
    if (auto ok = checks::own(buf, info(), "extent"); !ok) return fail(ok.error());
    const std::uint64_t first = file_->grow(buf.nbytes());
    file_->write({buf.data, buf.nbytes()}, first);
    return FileExtent{file_->fd(), first, buf.nbytes()};
  }
  [[nodiscard]] Result<void> fill(const Buf& buf, std::byte value) {
    if (auto go = state().enter("fill"); !go) return go;
    if (auto ok = checks::own(buf, info(), "fill"); !ok) return ok;
    if (buf.nbytes() != 0) std::memset(buf.data, std::to_integer<int>(value), buf.nbytes());
    return {};
  }
  [[nodiscard]] Result<Mapping> map(const Buf& buf, Access access, std::size_t nbytes,
                                    std::size_t byte_offset) {
    if (auto go = state().enter("map"); !go) return fail(go.error());
    if (auto ok = checks::access(buf, nbytes, byte_offset, info(), "map"); !ok) return fail(ok.error());
    state().map_opened();
    state().mapped_for = access;
    const std::span bytes(buf.data + byte_offset, nbytes);
    if (access == Access::overwrite && nbytes != 0) std::memset(bytes.data(), 0xDD, nbytes);
    return Mapping(bytes, &state(), unmap);
  }

  [[nodiscard]] Result<Rich> on(const Queue& queue) {
    if (auto go = state().enter("on"); !go) return fail(go.error());
    if (queue.native(queue_kind) == nullptr) return fail(Error(Errc::wrong_backend, info().backend).in("on"));
    Rich handle = *this;
    handle.queue_ = queue;
    return handle;
  }
  [[nodiscard]] Result<void> record_use(const Buf& buf, const Queue& queue) {
    if (auto go = state().enter("record_use"); !go) return go;
    if (queue.native(queue_kind) == nullptr)
      return fail(Error(Errc::wrong_backend, info().backend).in("record_use"));
    return checks::own(buf, info(), "record_use");
  }
  [[nodiscard]] Result<Event> record() {
    if (auto go = state().enter("record"); !go) return fail(go.error());
    return Event::borrow(event_kind, &state().event);
  }
  [[nodiscard]] Result<void> wait(const Event& event) {
    if (auto go = state().enter("wait"); !go) return go;
    if (event.native(event_kind) == nullptr)
      return fail(Error(Errc::wrong_backend, info().backend).in("wait"));
    return {};
  }
  [[nodiscard]] const Queue& queue() const noexcept { return queue_; }

  [[nodiscard]] bool supports_offset() const noexcept { return state().offers("offset"); }
  [[nodiscard]] bool supports_transfer() const noexcept { return state().offers("transfer"); }
  [[nodiscard]] bool supports_copy_from_disk() const noexcept { return state().offers("copy_from_disk"); }
  [[nodiscard]] bool supports_extent() const noexcept { return state().offers("extent"); }
  [[nodiscard]] bool supports_fill() const noexcept { return state().offers("fill"); }
  [[nodiscard]] bool supports_map() const noexcept { return state().offers("map"); }
  [[nodiscard]] bool supports_queues() const noexcept { return state().offers("queues"); }

 private:
  static Result<void> unmap(State* const& state, std::span<std::byte>) noexcept {
    state->map_closed();
    return state->enter("unmap");
  }

  std::shared_ptr<TemporaryFile> file_ = std::make_shared<TemporaryFile>();
  Queue queue_;
};

static_assert(OffsetAllocator<Rich<'a'>> && TransferAllocator<Rich<'a'>> && DiskCopyAllocator<Rich<'a'>> &&
              ExtentAllocator<Rich<'a'>> && FillAllocator<Rich<'a'>> && MappableAllocator<Rich<'a'>> &&
              QueueAllocator<Rich<'a'>>);

struct DiskBuffer {
  std::uint64_t first = 0;
  std::size_t size = 0;
  InstanceId root;
  bool view = false;

  [[nodiscard]] std::size_t nbytes() const noexcept { return size; }
  [[nodiscard]] InstanceId instance() const noexcept { return root; }
  [[nodiscard]] bool is_view() const noexcept { return view; }
};

/// Scratch space in a file; freed bytes are not used again.
class Disk {
 public:
  using buffer_type = DiskBuffer;

  [[nodiscard]] State& state() const noexcept { return *state_; }
  [[nodiscard]] const TemporaryFile& file() const noexcept { return *file_; }

  [[nodiscard]] Result<DiskBuffer> alloc(std::size_t nbytes, const BufferSpec& = {}) {
    if (auto go = state().enter("alloc"); !go) return fail(go.error());
    return DiskBuffer{file_->grow(nbytes), nbytes, info().instance, false};
  }
  void free(DiskBuffer buf, std::size_t, const BufferSpec& = {}) noexcept {
    state().count("free");
    static_cast<void>(checks::freeable(buf, info()));
  }
  [[nodiscard]] Result<void> copyin(const DiskBuffer& buf, std::span<const std::byte> src) {
    if (auto go = state().enter("copyin"); !go) return go;
    if (auto ok = checks::access(buf, src.size(), 0, info(), "copyin"); !ok) return ok;
    file_->write(src, buf.first);
    return {};
  }
  [[nodiscard]] Result<void> copyout(std::span<std::byte> dst, const DiskBuffer& buf) {
    if (auto go = state().enter("copyout"); !go) return go;
    if (auto ok = checks::access(buf, dst.size(), 0, info(), "copyout"); !ok) return ok;
    const std::size_t done = TemporaryFile::read(file_->fd(), dst, buf.first);
    if (done == dst.size()) return {};
    return fail(Error(Errc::short_read, info().backend).in("copyout").asking(dst.size()).after(done));
  }
  [[nodiscard]] Result<std::uintptr_t> addr(const DiskBuffer&) {
    return fail(Error(Errc::unsupported, info().backend).in("addr"));
  }
  [[nodiscard]] AllocatorInfo info() const { return state().info; }
  [[nodiscard]] Result<void> synchronize() { return state().enter("synchronize"); }

  [[nodiscard]] Result<DiskBuffer> offset(const DiskBuffer& buf, std::size_t nbytes,
                                          std::size_t byte_offset) {
    if (auto go = state().enter("offset"); !go) return fail(go.error());
    if (auto ok = checks::access(buf, nbytes, byte_offset, info(), "offset"); !ok) return fail(ok.error());
    return DiskBuffer{buf.first + byte_offset, nbytes, info().instance, true};
  }
  [[nodiscard]] Result<FileExtent> extent(const DiskBuffer& buf) {
    if (auto go = state().enter("extent"); !go) return fail(go.error());
    return FileExtent{file_->fd(), buf.first, buf.nbytes()};
  }
  [[nodiscard]] bool supports_offset() const noexcept { return state().offers("offset"); }
  [[nodiscard]] bool supports_extent() const noexcept { return state().offers("extent"); }

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>("disk");
  std::shared_ptr<TemporaryFile> file_ = std::make_shared<TemporaryFile>();
};

static_assert(OffsetAllocator<Disk> && ExtentAllocator<Disk> && !TransferAllocator<Disk>);

}  // namespace models
