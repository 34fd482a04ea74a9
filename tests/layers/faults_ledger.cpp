// SPDX-License-Identifier: MIT
#include "faults_ledger.hpp"

#include <algorithm>

namespace layers::faults {
namespace {

constexpr std::array<const char*, kinds> kind_names{"context", "queue",   "buffer",
                                                    "event",   "program", "kernel"};
constexpr std::size_t most_violations = 1000;

std::string text(Kind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

}  // namespace

Ledger& ledger() {
  static auto* const leaked = new Ledger;
  return *leaked;
}

void Ledger::record(std::string_view entry, std::string_view what) {
  if (violations_.size() < most_violations)
    violations_.push_back(std::string(entry) + ": " + std::string(what));
}

void Ledger::created(Kind kind, const void* handle) {
  const std::lock_guard lock(mutex_);
  handles_[handle] = Handle{kind, 1};
}

void Ledger::retained(Kind kind, const void* handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found != handles_.end() && found->second.kind == kind) ++found->second.references;
}

bool Ledger::released(std::string_view entry, Kind kind, const void* handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end() || found->second.kind != kind)
    return true;  // not made here: the driver's to judge
  if (found->second.references == 0) {
    record(entry, "more releases than references of a " + text(kind));
    return false;
  }
  --found->second.references;
  return true;
}

bool Ledger::alive(std::string_view entry, Kind kind, const void* handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end() || found->second.kind != kind || found->second.references > 0) return true;
  record(entry, "use of a released " + text(kind));
  return false;
}

bool Ledger::dead_buffer(const void* handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  return found != handles_.end() && found->second.kind == Kind::buffer && found->second.references == 0;
}

void Ledger::sized(cl_mem object, std::size_t nbytes, cl_mem root, std::size_t origin) {
  const std::lock_guard lock(mutex_);
  sizes_[object] = Range{root, origin, nbytes};
}

Ledger::Range Ledger::in_root(cl_mem object, std::size_t offset, std::size_t nbytes) const {
  const auto found = sizes_.find(object);
  if (found == sizes_.end()) return {object, offset, nbytes};
  return {found->second.root, found->second.offset + offset, nbytes};
}

void Ledger::check_range(std::string_view entry, cl_mem object, std::size_t offset, std::size_t nbytes) {
  const std::lock_guard lock(mutex_);
  if (nbytes == 0) record(entry, "a range of no bytes");
  const auto found = sizes_.find(object);
  if (found == sizes_.end()) return;
  const std::size_t size = found->second.nbytes;
  if (offset > size || nbytes > size - offset) {
    record(entry, "bytes " + std::to_string(offset) + " + " + std::to_string(nbytes) + " of a buffer of " +
                      std::to_string(size));
  }
}

void Ledger::check_copy(std::string_view entry, cl_mem from, std::size_t from_offset, cl_mem to,
                        std::size_t to_offset, std::size_t nbytes) {
  const std::lock_guard lock(mutex_);
  const Range a = in_root(from, from_offset, nbytes);
  const Range b = in_root(to, to_offset, nbytes);
  if (a.root == b.root && a.offset < b.offset + nbytes && b.offset < a.offset + nbytes) {
    record(entry, "source and destination overlap");
  }
}

void Ledger::check_own_memory(std::string_view entry, cl_mem object, std::size_t offset,
                              const void* pointer) {
  const std::lock_guard lock(mutex_);
  const Range range = in_root(object, offset, 0);
  const auto address = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at); };
  for (const Map& live : maps_) {
    const bool own = live.range.root == range.root &&
                     address(live.pointer) - live.range.offset == address(pointer) - range.offset;
    if (own) return record(entry, "the buffer's own memory while some of it is mapped");
  }
}

void Ledger::mapped(std::string_view entry, cl_mem object, const void* pointer, std::size_t offset,
                    std::size_t nbytes, bool writes) {
  const std::lock_guard lock(mutex_);
  const Map added{object, pointer, in_root(object, offset, nbytes), writes};
  for (const Map& live : maps_) {
    if (live.range.root != added.range.root) continue;
    const bool overlap = added.range.offset < live.range.offset + live.range.nbytes &&
                         live.range.offset < added.range.offset + nbytes;
    if (overlap && (writes || live.writes)) {
      record(entry, "overlaps a live map, and one of them writes");
    } else if (live.pointer == pointer) {
      record(entry, "two live maps at one address");
    }
  }
  maps_.push_back(added);
}

bool Ledger::unmapped(std::string_view entry, cl_mem object, const void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto newest = std::find_if(maps_.rbegin(), maps_.rend(), [&](const Map& live) {
    return live.object == object && live.pointer == pointer;
  });
  if (newest == maps_.rend()) {
    record(entry, "no live map at that address");
    return false;
  }
  maps_.erase(std::next(newest).base());
  return true;
}

void Ledger::violation(std::string_view entry, std::string_view what) {
  const std::lock_guard lock(mutex_);
  record(entry, what);
}

std::string Ledger::violations() const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const std::string& one : violations_) all += one + "\n";
  return all;
}

void Ledger::forget_violations() {
  const std::lock_guard lock(mutex_);
  violations_.clear();
}

Balance Ledger::balance() const {
  const std::lock_guard lock(mutex_);
  std::array<Balance::Count, kinds> counts{};
  for (const auto& [handle, known] : handles_) {
    if (known.references == 0) continue;
    Balance::Count& count = counts[static_cast<std::size_t>(known.kind)];
    ++count.handles;
    count.references += known.references;
  }
  return {counts[0],
          counts[1],
          counts[2],
          counts[3],
          counts[4],
          counts[5],
          static_cast<std::int64_t>(maps_.size())};
}

}  // namespace layers::faults
