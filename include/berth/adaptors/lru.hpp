// SPDX-License-Identifier: MIT
#pragma once

#include <berth/adaptors/detail/idle_blocks.hpp>
#include <berth/adaptors/forwarding.hpp>
#include <berth/adaptors/size_class.hpp>
#include <berth/core/diagnostics.hpp>
#include <berth/core/mutex.hpp>
#include <berth/core/packed_allocator.hpp>
#include <berth/core/process.hpp>
#include <berth/core/reclaim.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace berth::inline BERTH_ABI {

/// How an `LruAllocator` works.
struct LruOptions {
  /// Idle bytes that it keeps at most; the oldest are freed first. By default half of the device's memory,
  /// and no limit where that is unknown.
  std::optional<std::uint64_t> budget_bytes = std::nullopt;
  /// Serves a request from a block of its size class (`size_class`), so that nearby sizes share blocks. Needs
  /// buffers that can be resized.
  bool size_classes = false;
  /// The runtime's last resort when memory runs out; see `reclaim::allocate`.
  reclaim::OutOfMemoryHook on_out_of_memory = nullptr;
};

/// What an `LruAllocator` did and holds. One consistent snapshot.
struct LruStatistics {
  std::uint64_t hits = 0;           ///< allocations served from the cache
  std::uint64_t misses = 0;         ///< allocations that asked upstream
  std::uint64_t bypassed = 0;       ///< allocations that never come from the cache
  std::uint64_t evictions = 0;      ///< idle blocks freed, for whatever reason
  std::uint64_t cached_blocks = 0;  ///< idle now
  std::uint64_t cached_bytes = 0;   ///< idle now
  std::uint64_t peak_cached_bytes = 0;
  std::uint64_t live_bytes = 0;  ///< allocated and not freed, `external_ptr` left out

  friend bool operator==(const LruStatistics&, const LruStatistics&) = default;
};

/// Keeps freed blocks and hands them out again to requests of the same size and spec, the newest first. Idle
/// bytes stay within a budget by freeing the oldest. `nolru`, `zero` and `external_ptr` bypass it, as does
/// everything when the environment variable `BERTH_LRU` is "0" at construction, and what was adopted,
/// borrowed or carved. Of blocks that the CPU can write the oldest goes first: it is the likeliest to be
/// idle.
///
/// When upstream runs out of memory it climbs the ladder of `reclaim::allocate`, and the last error says how
/// much is live and cached.
///
/// A block may be freed while work on its queue still uses it: a handle on the same queue gets it at once,
/// one from `on(other queue)` waits on the device for its last uses, `record_use` included. Free a block
/// through the handle that allocated it, or record the other queues. A block that the CPU can write (`host`,
/// `cpu_access`) is handed out again only when its last use has completed; one whose uses cannot be recorded
/// is freed. Copies, and handles from `on`, share the cache. Thread-safe; no lock is held across upstream.
template <Allocator Upstream>
class LruAllocator : public Forwarding<Upstream> {
 public:
  using buffer_type = buffer_t<Upstream>;

  /// `unsupported` for size classes over buffers that cannot be resized.
  [[nodiscard]] static Result<LruAllocator> create(Upstream upstream, LruOptions options = {}) {
    const AllocatorInfo info = upstream.info();
    if (auto usable = process::not_forked(info.backend); !usable) return fail(usable.error());
    if (options.size_classes && !resizable(upstream)) {
      return fail(Error(Errc::unsupported, info.backend)
                      .in("LruAllocator::create")
                      .because("size classes need buffers that can be resized"));
    }
    auto state = std::make_shared<State>(upstream, std::move(options));
    reclaim::announce(info.device, state);
    return LruAllocator(std::move(upstream), std::move(state), 0);
  }

  [[nodiscard]] Result<buffer_type> alloc(std::size_t nbytes, const BufferSpec& spec = {}) {
    if (auto usable = process::not_forked(state_->info.backend); !usable) return fail(usable.error());
    if (!state_->cacheable(nbytes, spec)) {
      auto buf = fresh(nbytes, spec);
      state_->bypassed(buf ? nbytes : 0, spec);
      return buf;
    }
    const Key key{state_->block_bytes(nbytes), spec};
    if (auto idle = take(key)) return sized(std::move(*idle), nbytes);

    state_->expect(key);
    auto buf = fresh(key.nbytes, spec);
    if (!buf) {
      state_->forget(key);
      return buf;
    }
    state_->allocated(key.nbytes);
    return sized(std::move(*buf), nbytes);
  }

  void free(buffer_type buf, std::size_t nbytes, const BufferSpec& spec = {}) noexcept {
    if (process::forked()) return;
    const bool freeable = !buf.is_view() && buf.instance() == state_->info.instance && !is_shared(buf);
    if (!freeable || !state_->cacheable(nbytes, spec)) {
      if (freeable) state_->forget_uses(buf);
      this->upstream().free(std::move(buf), nbytes, spec);
      if (freeable && nbytes != 0 && spec.external_ptr == nullptr) state_->freed(nbytes);
      return;
    }
    const Key key{state_->block_bytes(nbytes), spec};
    buffer_type block = sized(std::move(buf), key.nbytes);
    Use own{handle_, {}};
    std::vector<Use> others = state_->uses_of(block);
    if (!note_uses(own, others, spec)) {
      this->upstream().free(std::move(block), key.nbytes, spec);
      state_->forget(key);
      state_->freed(key.nbytes);
      return;
    }
    state_->keep(key, std::move(block), std::move(own), std::move(others));
  }

  [[nodiscard]] Result<void> record_use(const buffer_type& buf, const Queue& queue)
    requires QueueAllocator<Upstream>
  {
    if (auto told = Forwarding<Upstream>::record_use(buf, queue); !told) return told;
    auto handle = handle_on(queue);
    if (!handle) return fail(handle.error());
    if constexpr (BlockHandle<buffer_type>) {
      if (buf.block() != 0 && !is_shared(buf)) state_->used(buf.block(), *handle);
    }
    return {};
  }

  [[nodiscard]] Result<LruAllocator> on(const Queue& queue)
    requires QueueAllocator<Upstream>
  {
    if (auto usable = process::not_forked(state_->info.backend); !usable) return fail(usable.error());
    auto handle = handle_on(queue);
    if (!handle) return fail(handle.error());
    return LruAllocator(state_->upstream(*handle), state_, *handle);
  }

  /// Frees the oldest idle blocks until at most `bytes` are kept; returns the bytes freed.
  std::uint64_t trim(std::uint64_t bytes) noexcept { return state_->evict_down_to(bytes); }

  [[nodiscard]] LruStatistics statistics() const noexcept { return state_->statistics(); }
  [[nodiscard]] std::uint64_t budget_bytes() const noexcept { return state_->budget; }
  /// False when `BERTH_LRU=0` switched it off.
  [[nodiscard]] bool enabled() const noexcept { return state_->enabled; }

 private:
  using Key = detail::BlockKey;
  using Use = detail::Use;
  using Blocks = detail::IdleBlocks<buffer_type>;
  using Node = typename Blocks::Node;

  // What the handles of one cache share.
  class State final : public reclaim::Reclaimable {
   public:
    State(const Upstream& first, LruOptions given)
        : info(first.info()),
          enabled(switched_on()),
          budget(given.budget_bytes.value_or(info.total_bytes != 0 ? info.total_bytes / 2
                                                                   : reclaim::everything)),
          size_classes(given.size_classes),
          hook(std::move(given.on_out_of_memory)) {
      handles_.push_back({Queue(), first});
    }
    ~State() override { evict_down_to(0); }

    [[nodiscard]] bool cacheable(std::size_t nbytes, const BufferSpec& spec) const noexcept {
      return enabled && nbytes != 0 && !spec.nolru && !spec.zero && spec.external_ptr == nullptr;
    }
    [[nodiscard]] std::size_t block_bytes(std::size_t nbytes) const noexcept {
      const std::size_t rounded = size_classes ? size_class(nbytes) : nbytes;
      return rounded <= info.max_bytes ? rounded : nbytes;
    }

    // Accounts.
    void expect(const Key& key) {
      const MutexLock lock(mutex_);
      ++seen_.misses;
      blocks_.expect(key);
    }
    void forget(const Key& key) noexcept {
      const MutexLock lock(mutex_);
      blocks_.forget(key);
    }
    void allocated(std::uint64_t nbytes) noexcept {
      const MutexLock lock(mutex_);
      seen_.live_bytes += nbytes;
    }
    void freed(std::uint64_t nbytes) noexcept {
      const MutexLock lock(mutex_);
      seen_.live_bytes -= std::min(nbytes, seen_.live_bytes);
    }
    void bypassed(std::uint64_t nbytes, const BufferSpec& spec) noexcept {
      const MutexLock lock(mutex_);
      ++seen_.bypassed;
      if (spec.external_ptr == nullptr) seen_.live_bytes += nbytes;
    }
    [[nodiscard]] LruStatistics statistics() const noexcept {
      if (process::forked()) return {};
      const MutexLock lock(mutex_);
      LruStatistics now = seen_;
      now.cached_blocks = blocks_.count();
      now.cached_bytes = blocks_.nbytes();
      return now;
    }

    // Taking out and putting back.

    /// Out of the lists when `device_only`; else the oldest, in them and marked busy, for the caller to look
    /// at.
    [[nodiscard]] Node* candidate(const Key& key, bool cpu_writable) noexcept {
      const MutexLock lock(mutex_);
      Node* node = cpu_writable ? blocks_.oldest(key) : blocks_.newest(key);
      if (node == nullptr) return nullptr;
      node->busy = cpu_writable;
      if (!cpu_writable) blocks_.remove(node);
      return node;
    }
    void still_used(Node* node) noexcept {
      const MutexLock lock(mutex_);
      node->busy = false;
    }
    void no_longer_used(Node* node) noexcept {
      const MutexLock lock(mutex_);
      node->busy = false;
      blocks_.remove(node);
    }
    [[nodiscard]] buffer_type hand_out(Node* node) noexcept {
      const MutexLock lock(mutex_);
      ++seen_.hits;
      seen_.live_bytes += node->bucket->key.nbytes;
      return blocks_.hand_out(node);
    }
    void keep(const Key& key, buffer_type block, Use own, std::vector<Use> others) noexcept {
      Node* evicted = nullptr;
      Node* node = nullptr;
      {
        const MutexLock lock(mutex_);
        node = blocks_.returning(key);
        if (node != nullptr) {
          seen_.live_bytes -= std::min<std::uint64_t>(key.nbytes, seen_.live_bytes);
          node->buf.emplace(std::move(block));
          node->freed_by = std::move(own);
          node->others = std::move(others);
          if (key.nbytes <= budget) {
            evicted = detach_down_to(budget - key.nbytes);
            blocks_.add(node);
            seen_.peak_cached_bytes = std::max(seen_.peak_cached_bytes, blocks_.nbytes());
          } else {
            evicted = node;
          }
        }
      }
      // A block that this cache did not allocate is not its to keep.
      if (node == nullptr) upstream_ref(own.handle).free(std::move(block), key.nbytes, key.spec);
      release(evicted);
    }
    std::uint64_t evict_down_to(std::uint64_t bytes) noexcept {
      if (process::forked()) return 0;  // another thread may have held the lock
      Node* evicted = nullptr;
      std::uint64_t before = 0;
      std::uint64_t after = 0;
      {
        const MutexLock lock(mutex_);
        before = blocks_.nbytes();
        evicted = detach_down_to(bytes);
        after = blocks_.nbytes();
      }
      release(evicted);
      return before - after;
    }
    std::uint64_t reclaim(std::uint64_t nbytes) noexcept override {
      std::uint64_t cached = 0;
      {
        const MutexLock lock(mutex_);
        cached = blocks_.nbytes();
      }
      return evict_down_to(nbytes < cached ? cached - nbytes : 0);
    }
    /// For a node that is out of the lists: frees its block, or a whole chain of them.
    void release(Node* chain) noexcept {
      while (chain != nullptr) {
        Node* node = chain;
        chain = std::exchange(node->older, nullptr);
        const Key key = node->bucket->key;
        upstream_ref(node->freed_by.handle).free(std::move(*node->buf), key.nbytes, key.spec);
        const MutexLock lock(mutex_);
        ++seen_.evictions;
        blocks_.drop(node);
      }
    }

    // Queues.

    /// One is the allocator's own; more are from `on` and `record_use`.
    [[nodiscard]] bool several_queues() const noexcept {
      return handle_count_.load(std::memory_order_acquire) > 1;
    }
    [[nodiscard]] std::optional<std::size_t> find(const Queue& queue) const noexcept {
      const MutexLock lock(mutex_);
      for (std::size_t i = 1; i < handles_.size(); ++i) {
        if (handles_[i].queue == queue) return i;
      }
      return std::nullopt;
    }
    std::size_t add(const Queue& queue, Upstream handle) {
      const MutexLock lock(mutex_);
      handles_.push_back({queue, std::move(handle)});
      handle_count_.store(handles_.size(), std::memory_order_release);
      return handles_.size() - 1;
    }
    [[nodiscard]] Upstream upstream(std::size_t handle) const {
      const MutexLock lock(mutex_);
      return handles_[handle].upstream;
    }
    /// Handles are never removed, so the reference stays good without the lock.
    [[nodiscard]] Upstream& upstream_ref(std::size_t handle) noexcept {
      const MutexLock lock(mutex_);
      return handles_[handle].upstream;
    }
    [[nodiscard]] std::size_t handle_count() const noexcept {
      return handle_count_.load(std::memory_order_acquire);
    }
    void used(std::uintptr_t block, std::size_t handle) {
      const MutexLock lock(mutex_);
      std::vector<Use>& uses = uses_[block];
      if (std::ranges::find(uses, handle, &Use::handle) == uses.end()) uses.push_back({handle, {}});
    }
    /// The queues besides its own that were recorded for a block which is being freed.
    [[nodiscard]] std::vector<Use> uses_of(const buffer_type& block) noexcept {
      if constexpr (BlockHandle<buffer_type>) {
        const MutexLock lock(mutex_);
        if (uses_.empty()) return {};
        if (auto found = uses_.extract(block.block())) return std::move(found.mapped());
      }
      return {};
    }

    void forget_uses(const buffer_type& block) noexcept { static_cast<void>(uses_of(block)); }

    const AllocatorInfo info;
    const bool enabled;
    const std::uint64_t budget;
    const bool size_classes;
    const reclaim::OutOfMemoryHook hook;

   private:
    struct Handle {
      Queue queue;
      Upstream upstream;
    };

    static bool switched_on() noexcept {
      const char* value = std::getenv("BERTH_LRU");
      return value == nullptr || std::string_view(value) != "0";
    }
    // Takes the oldest out until at most `bytes` are idle; a chain through `older`.
    [[nodiscard]] Node* detach_down_to(std::uint64_t bytes) noexcept BERTH_REQUIRES(mutex_) {
      Node* chain = nullptr;
      while (blocks_.nbytes() > bytes) {
        Node* node = blocks_.oldest_of_all();
        if (node == nullptr) break;
        blocks_.remove(node);
        node->older = chain;
        chain = node;
      }
      return chain;
    }

    mutable Mutex mutex_;
    Blocks blocks_ BERTH_GUARDED_BY(mutex_);
    LruStatistics seen_ BERTH_GUARDED_BY(mutex_);
    std::deque<Handle> handles_ BERTH_GUARDED_BY(mutex_);
    std::unordered_map<std::uintptr_t, std::vector<Use>> uses_ BERTH_GUARDED_BY(mutex_);  // by block
    std::atomic<std::size_t> handle_count_{1};
  };

  LruAllocator(Upstream upstream, std::shared_ptr<State> state, std::size_t handle) noexcept
      : Forwarding<Upstream>(std::move(upstream)), state_(std::move(state)), handle_(handle) {}

  static bool resizable(Upstream& upstream) noexcept {
    if constexpr (!ResizableHandle<buffer_type>) {
      return false;
    } else if constexpr (std::same_as<buffer_type, PackedBuffer>) {
      auto buf = upstream.alloc(0, BufferSpec{});
      const bool can = buf && !buf->resized(0).empty();
      if (buf) upstream.free(std::move(*buf), 0, BufferSpec{});
      return can;
    } else {
      return true;
    }
  }
  [[nodiscard]] buffer_type sized(buffer_type buf, std::size_t nbytes) const noexcept {
    if constexpr (ResizableHandle<buffer_type>) {
      if (state_->size_classes) return buf.resized(nbytes);
    }
    return buf;
  }

  // From upstream, by the ladder.
  Result<buffer_type> fresh(std::size_t nbytes, const BufferSpec& spec) {
    auto buf = reclaim::allocate(
        nbytes, state_->info.device, *state_, state_->hook,
        [&] { return this->upstream().alloc(nbytes, spec); }, [&] { return synchronize_all(); });
    if (buf || buf.error().code() != Errc::out_of_memory) return buf;
    const LruStatistics now = state_->statistics();
    return fail(Error(buf.error()).with_live(now.live_bytes).with_cached(now.cached_bytes));
  }
  Result<void> synchronize_all() {
    for (std::size_t i = 0; i < state_->handle_count(); ++i) {
      if (auto idle = state_->upstream_ref(i).synchronize(); !idle) return idle;
    }
    return {};
  }

  // An idle block that this handle's queue may use now.
  std::optional<buffer_type> take(const Key& key) {
    const bool cpu_writable = has_queues() && (key.spec.host || key.spec.cpu_access);
    Node* node = state_->candidate(key, cpu_writable);
    if (node == nullptr) return std::nullopt;
    if (cpu_writable) {
      const Result<bool> idle = completed(*node);
      if (idle && !*idle) {
        state_->still_used(node);
        return std::nullopt;
      }
      state_->no_longer_used(node);
      if (!idle) {  // its last use cannot be told, or has failed
        state_->release(node);
        return std::nullopt;
      }
    } else if (!ordered(*node)) {
      state_->release(node);
      return std::nullopt;
    }
    return state_->hand_out(node);
  }

  [[nodiscard]] bool has_queues() const noexcept { return berth::supports_queues(this->upstream()); }

  // Makes sure that another queue, or the host, can find out when the uses have ended.
  [[nodiscard]] bool note_uses(Use& own, std::vector<Use>& others, const BufferSpec& spec) noexcept {
    if (!has_queues()) return true;
    if (!state_->several_queues() && !spec.host && !spec.cpu_access) return true;
    return note_use(own) && std::ranges::all_of(others, [this](Use& use) { return note_use(use); });
  }
  [[nodiscard]] bool note_use(Use& use) noexcept {
    if constexpr (QueueAllocator<Upstream>) {
      auto event = state_->upstream_ref(use.handle).record();
      if (!event) return false;
      use.event = std::move(*event);
    }
    return true;
  }
  // Orders this handle's queue after the uses on other queues.
  [[nodiscard]] bool ordered(Node& node) {
    return ordered(node.freed_by) &&
           std::ranges::all_of(node.others, [this](Use& use) { return ordered(use); });
  }
  [[nodiscard]] bool ordered(Use& use) {
    if constexpr (QueueAllocator<Upstream>) {
      if (use.handle == handle_ || !has_queues()) return true;
      if (!use.event && !note_use(use)) return false;  // freed while there was one queue only
      return this->upstream().wait(use.event).has_value();
    }
    return true;
  }
  [[nodiscard]] static Result<bool> completed(const Node& node) noexcept {
    auto all = node.freed_by.event.complete();
    for (const Use& use : node.others) {
      if (!all || !*all) break;
      all = use.event.complete();
    }
    return all;
  }
  [[nodiscard]] static bool is_shared(const buffer_type& buf) noexcept {
    if constexpr (BlockHandle<buffer_type>) return buf.block() == shared_block;
    return false;
  }

  [[nodiscard]] Result<std::size_t> handle_on(const Queue& queue)
    requires QueueAllocator<Upstream>
  {
    if (const auto found = state_->find(queue)) return *found;
    auto handle = this->upstream().on(queue);
    if (!handle) return fail(handle.error());
    return state_->add(queue, std::move(*handle));
  }

  std::shared_ptr<State> state_;
  std::size_t handle_;
};

static_assert(QueueAllocator<LruAllocator<PackedAllocator>>);

}  // namespace berth::inline BERTH_ABI
