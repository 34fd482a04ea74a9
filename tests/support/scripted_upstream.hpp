// SPDX-License-Identifier: MIT
// An upstream made of numbers: it hands out numbered blocks, logs what is asked of it and fails when told to.
#pragma once

#include <berth/core/allocator.hpp>
#include <berth/core/checks.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace berth_test {

struct NumberedBlock {
  std::size_t number = 0;
  std::size_t size = 0;
  berth::InstanceId owner;
  bool view = false;

  [[nodiscard]] std::size_t nbytes() const noexcept { return size; }
  [[nodiscard]] berth::InstanceId instance() const noexcept { return owner; }
  [[nodiscard]] bool is_view() const noexcept { return view; }
  [[nodiscard]] std::uintptr_t block() const noexcept { return number; }
  [[nodiscard]] NumberedBlock resized(std::size_t nbytes) const noexcept {
    return {number, nbytes, owner, view};
  }
};

/// What the copies of a `ScriptedUpstream` share.
struct Script {
  std::mutex mutex;
  std::vector<std::string> log;  // "alloc 1", "free 1", "synchronize", "record q0", "wait q1 q0#3" in order
  std::map<std::size_t, std::size_t> live;  // number -> bytes
  std::size_t next = 1;
  std::size_t failures = 0;  // allocations to refuse from now on
  berth::Errc code = berth::Errc::out_of_memory;
  bool record_fails = false;
  bool logging = true;
  std::uint64_t max_bytes = std::uint64_t{1} << 40U;
  std::uint64_t total_bytes = 0;
  berth::InstanceId instance = berth::next_instance_id();
  berth::DeviceKey device{.backend = "scripted", .high = 0, .low = instance.value};
  std::function<void()> on_free = nullptr;  // called without the lock

  void say(std::string line) {
    const std::lock_guard lock(mutex);
    if (logging) log.push_back(std::move(line));
  }
  std::vector<std::string> take_log() {
    const std::lock_guard lock(mutex);
    return std::exchange(log, {});
  }
};

/// Scripted events: complete when their flag is set. Native handle: `ScriptedEvent*`, kept by the script's
/// test.
struct ScriptedEvent {
  std::string name;
  bool done = false;
  bool broken = false;
};
inline constexpr berth::HandleKind scripted_queue{"scripted", nullptr, nullptr};
inline constexpr berth::HandleKind scripted_event{
    "scripted", nullptr, nullptr,
    [](void* native) noexcept -> berth::Result<bool> {
      const auto* event = static_cast<ScriptedEvent*>(native);
      if (event->broken)
        return berth::fail(berth::Error(berth::Errc::device_lost, "scripted").in("complete"));
      return event->done;
    },
    [](void*) noexcept -> berth::Result<void> { return {}; }};

class ScriptedUpstream {
 public:
  using buffer_type = NumberedBlock;

  explicit ScriptedUpstream(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  berth::Result<NumberedBlock> alloc(std::size_t nbytes, const berth::BufferSpec&) {
    if (nbytes == 0) return NumberedBlock{0, 0, script_->instance};
    const std::lock_guard lock(script_->mutex);
    if (nbytes > script_->max_bytes) {
      return berth::fail(
          berth::Error(berth::Errc::exceeds_device_maximum, "scripted").in("alloc").asking(nbytes));
    }
    if (script_->failures != 0) {
      --script_->failures;
      if (script_->logging) script_->log.push_back("refuse");
      return berth::fail(berth::Error(script_->code, "scripted").in("alloc").asking(nbytes));
    }
    const std::size_t number = script_->next++;
    if (script_->logging) script_->log.push_back("alloc " + std::to_string(number));
    script_->live[number] = nbytes;
    return NumberedBlock{number, nbytes, script_->instance};
  }
  void free(NumberedBlock block, std::size_t nbytes, const berth::BufferSpec&) noexcept {
    if (!berth::checks::freeable(block, info()) || block.size == 0) return;
    {
      const std::lock_guard lock(script_->mutex);
      if (script_->logging) script_->log.push_back("free " + std::to_string(block.number));
      const auto found = script_->live.find(block.number);
      if (found == script_->live.end() || found->second != nbytes || nbytes != block.size) {
        script_->log.push_back("BAD free " + std::to_string(block.number));
      } else {
        script_->live.erase(found);
      }
    }
    if (script_->on_free) script_->on_free();
  }
  berth::Result<void> copyin(const NumberedBlock&, std::span<const std::byte>) { return {}; }
  berth::Result<void> copyout(std::span<std::byte>, const NumberedBlock&) { return {}; }
  berth::Result<std::uintptr_t> addr(const NumberedBlock& block) { return block.number; }
  [[nodiscard]] berth::AllocatorInfo info() const {
    return {.backend = "scripted",
            .instance = script_->instance,
            .device = script_->device,
            .max_bytes = script_->max_bytes,
            .total_bytes = script_->total_bytes};
  }
  berth::Result<void> synchronize() {
    script_->say("synchronize");
    return {};
  }

 protected:
  std::shared_ptr<Script> script_;
};
static_assert(berth::Allocator<ScriptedUpstream>);

/// The same with queues. A queue's native handle is its name, a `const std::string*`.
class QueuedUpstream : public ScriptedUpstream {
 public:
  QueuedUpstream(std::shared_ptr<Script> script, std::string queue)
      : ScriptedUpstream(std::move(script)), queue_(std::move(queue)) {}

  static berth::Queue queue(const std::string& name) {
    return berth::Queue::adopt(scripted_queue, const_cast<std::string*>(&name));
  }

  berth::Result<QueuedUpstream> on(const berth::Queue& queue) {
    const auto* name = static_cast<const std::string*>(queue.native(scripted_queue));
    if (name == nullptr) return berth::fail(berth::Error(berth::Errc::wrong_backend, "scripted").in("on"));
    return QueuedUpstream(script_, *name);
  }
  berth::Result<void> record_use(const NumberedBlock&, const berth::Queue&) { return {}; }
  berth::Result<berth::Event> record() {
    if (script_->record_fails) {
      return berth::fail(berth::Error(berth::Errc::driver, "scripted").in("record"));
    }
    const std::lock_guard lock(script_->mutex);
    events().push_back(std::make_unique<ScriptedEvent>(queue_ + "#" + std::to_string(events().size())));
    if (script_->logging) script_->log.push_back("record " + events().back()->name);
    return berth::Event::adopt(scripted_event, events().back().get());
  }
  berth::Result<void> wait(const berth::Event& event) {
    script_->say(queue_ + " waits " + static_cast<ScriptedEvent*>(event.native(scripted_event))->name);
    return {};
  }
  [[nodiscard]] bool supports_queues() const noexcept { return true; }

  /// All events recorded since the last `events().clear()`.
  static std::vector<std::unique_ptr<ScriptedEvent>>& events() {
    static std::vector<std::unique_ptr<ScriptedEvent>> all;
    return all;
  }

 private:
  std::string queue_;
};
static_assert(berth::QueueAllocator<QueuedUpstream>);

}  // namespace berth_test
