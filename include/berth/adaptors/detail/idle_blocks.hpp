// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/allocator.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace berth::inline BERTH_ABI::detail {

/// What makes two blocks interchangeable.
struct BlockKey {
  std::size_t nbytes;
  BufferSpec spec;
  friend bool operator==(const BlockKey&, const BlockKey&) = default;
};
struct BlockKeyHash {
  std::size_t operator()(const BlockKey& key) const noexcept {
    return key.nbytes * 0x9E3779B97F4A7C15U ^ std::hash<BufferSpec>{}(key.spec);
  }
};

/// The last use of a block on one queue: which of the cache's handles, and the event behind it where one was
/// recorded.
struct Use {
  std::size_t handle = 0;
  Event event;
};

/// Freed blocks by key, newest first, and by age over all keys. Not thread-safe.
///
/// A block's node is made when the block is allocated (`expect`) and waits among the spares while it is live,
/// so that taking the block back allocates nothing.
template <BufferHandle Buf>
class IdleBlocks {
 public:
  struct Bucket;
  struct Node {
    std::optional<Buf> buf;
    Bucket* bucket = nullptr;
    Use freed_by{};           // on the queue of the handle that freed it
    std::vector<Use> others;  // on other queues
    bool busy = false;        // being looked at without the lock: neither taken nor evicted by others
    Node* older = nullptr;    // of the same key
    Node* newer = nullptr;
    Node* older_of_all = nullptr;
    Node* newer_of_all = nullptr;
  };
  struct Bucket {
    BlockKey key{};
    std::size_t references = 0;  // live blocks and idle ones of this key
    std::size_t live = 0;
    Node* newest = nullptr;
    Node* oldest = nullptr;
  };

  IdleBlocks() = default;
  IdleBlocks(const IdleBlocks&) = delete;
  IdleBlocks& operator=(const IdleBlocks&) = delete;
  /// The idle blocks must have been evicted.
  ~IdleBlocks() {
    while (spares_ != nullptr) delete std::exchange(spares_, spares_->older);
  }

  /// Makes room for a block of that key, which is about to be allocated.
  void expect(const BlockKey& key) {
    Bucket& bucket = buckets_.try_emplace(key).first->second;
    bucket.key = key;
    ++bucket.references;
    ++bucket.live;
    give_spare(new Node);
  }
  /// A block of that key was not allocated after all, or is gone from the cache's care.
  void forget(const BlockKey& key) noexcept {
    Bucket* const bucket = no_longer_live(key);
    if (bucket == nullptr) return;
    delete take_spare();
    unreference(*bucket);
  }
  /// A node for a live block that comes back; null when no such block was expected.
  [[nodiscard]] Node* returning(const BlockKey& key) noexcept {
    Bucket* const bucket = no_longer_live(key);
    if (bucket == nullptr) return nullptr;
    Node* node = take_spare();
    node->bucket = bucket;
    return node;
  }

  /// Adds a block that came back, as the newest.
  void add(Node* node) noexcept {
    Bucket& bucket = *node->bucket;
    node->older = std::exchange(bucket.newest, node);
    (node->older != nullptr ? node->older->newer : bucket.oldest) = node;
    node->older_of_all = std::exchange(newest_of_all_, node);
    (node->older_of_all != nullptr ? node->older_of_all->newer_of_all : oldest_of_all_) = node;
    ++count_;
    nbytes_ += bucket.key.nbytes;
  }
  /// Takes an idle block out; its node stays the caller's.
  void remove(Node* node) noexcept {
    Bucket& bucket = *node->bucket;
    (node->newer != nullptr ? node->newer->older : bucket.newest) = node->older;
    (node->older != nullptr ? node->older->newer : bucket.oldest) = node->newer;
    (node->newer_of_all != nullptr ? node->newer_of_all->older_of_all : newest_of_all_) = node->older_of_all;
    (node->older_of_all != nullptr ? node->older_of_all->newer_of_all : oldest_of_all_) = node->newer_of_all;
    node->older = node->newer = node->older_of_all = node->newer_of_all = nullptr;
    --count_;
    nbytes_ -= bucket.key.nbytes;
  }
  /// The block of a removed node goes to a caller: the node waits until it comes back.
  Buf hand_out(Node* node) noexcept {
    Buf buf = std::move(*node->buf);
    node->buf.reset();
    node->freed_by = {};
    node->others.clear();
    ++std::exchange(node->bucket, nullptr)->live;
    give_spare(node);
    return buf;
  }
  /// The block of a removed node is gone: so is the node.
  void drop(Node* node) noexcept {
    Bucket& bucket = *node->bucket;
    delete node;
    unreference(bucket);
  }

  /// The newest, or the oldest, idle block of that key that nobody looks at; null when there is none.
  [[nodiscard]] Node* newest(const BlockKey& key) const noexcept {
    const auto found = buckets_.find(key);
    Node* node = found != buckets_.end() ? found->second.newest : nullptr;
    while (node != nullptr && node->busy) node = node->older;
    return node;
  }
  [[nodiscard]] Node* oldest(const BlockKey& key) const noexcept {
    const auto found = buckets_.find(key);
    Node* node = found != buckets_.end() ? found->second.oldest : nullptr;
    while (node != nullptr && node->busy) node = node->newer;
    return node;
  }
  [[nodiscard]] Node* oldest_of_all() const noexcept {
    Node* node = oldest_of_all_;
    while (node != nullptr && node->busy) node = node->newer_of_all;
    return node;
  }

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return nbytes_; }

 private:
  void give_spare(Node* node) noexcept { node->older = std::exchange(spares_, node); }
  // There is one for each live block.
  [[nodiscard]] Node* take_spare() noexcept {
    Node* node = spares_;
    spares_ = std::exchange(node->older, nullptr);
    return node;
  }
  // The bucket of a live block of that key, which it is no longer; null when none is live.
  [[nodiscard]] Bucket* no_longer_live(const BlockKey& key) noexcept {
    const auto found = buckets_.find(key);
    if (found == buckets_.end() || found->second.live == 0) return nullptr;
    --found->second.live;
    return &found->second;
  }
  void unreference(Bucket& bucket) noexcept {
    if (--bucket.references == 0) buckets_.erase(buckets_.find(bucket.key));
  }

  std::unordered_map<BlockKey, Bucket, BlockKeyHash> buckets_;
  Node* spares_ = nullptr;
  Node* newest_of_all_ = nullptr;
  Node* oldest_of_all_ = nullptr;
  std::size_t count_ = 0;
  std::uint64_t nbytes_ = 0;
};

}  // namespace berth::inline BERTH_ABI::detail
