// SPDX-License-Identifier: MIT
// An adaptor has an optional operation exactly when its upstream has it: as a type, and on this device.
#include <berth/adaptors/failing.hpp>
#include <berth/adaptors/limiting.hpp>
#include <berth/adaptors/statistics.hpp>
#include <berth/core/packed_allocator.hpp>

#include <array>
#include <string>

#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/outcome.hpp"

using namespace berth;

namespace {

enum class Op { none, offset, transfer, copy_from_disk, extent, fill, map, queues };
constexpr std::array every_op{Op::offset, Op::transfer, Op::copy_from_disk, Op::extent,
                              Op::fill,   Op::map,      Op::queues};

/// The seven operations that every allocator has, and one optional one.
template <Op op>
class Only : public models::Plain<models::SmallBuffer> {
  using Buf = models::SmallBuffer;

 public:
  Result<Buf> offset(const Buf& buf, std::size_t, std::size_t)
    requires(op == Op::offset)
  {
    return buf;
  }
  bool supports_offset() const noexcept
    requires(op == Op::offset)
  {
    return true;
  }
  Result<void> transfer(const Buf&, const Buf&, std::size_t)
    requires(op == Op::transfer)
  {
    return {};
  }
  bool supports_transfer() const noexcept
    requires(op == Op::transfer)
  {
    return true;
  }
  Result<DiskCopy> copy_from_disk(const Buf&, const FileExtent&, std::size_t)
    requires(op == Op::copy_from_disk)
  {
    return DiskCopy{};
  }
  Result<DiskCopy> load(std::span<const LoadRange<Buf>>, const LoadOptions&)
    requires(op == Op::copy_from_disk)
  {
    return DiskCopy{};
  }
  bool supports_copy_from_disk() const noexcept
    requires(op == Op::copy_from_disk)
  {
    return true;
  }
  Result<FileExtent> extent(const Buf&)
    requires(op == Op::extent)
  {
    return FileExtent{};
  }
  bool supports_extent() const noexcept
    requires(op == Op::extent)
  {
    return true;
  }
  Result<void> fill(const Buf&, std::byte)
    requires(op == Op::fill)
  {
    return {};
  }
  bool supports_fill() const noexcept
    requires(op == Op::fill)
  {
    return true;
  }
  Result<Mapping> map(const Buf&, Access, std::size_t, std::size_t)
    requires(op == Op::map)
  {
    return Mapping();
  }
  bool supports_map() const noexcept
    requires(op == Op::map)
  {
    return true;
  }
  Result<Only> on(const Queue&)
    requires(op == Op::queues)
  {
    return *this;
  }
  Result<void> record_use(const Buf&, const Queue&)
    requires(op == Op::queues)
  {
    return {};
  }
  Result<Event> record()
    requires(op == Op::queues)
  {
    return Event();
  }
  Result<void> wait(const Event&)
    requires(op == Op::queues)
  {
    return {};
  }
  bool supports_queues() const noexcept
    requires(op == Op::queues)
  {
    return true;
  }
};

/// Which refinements a type models.
template <class A>
constexpr bool models_op(Op op) {
  switch (op) {
    case Op::none:
      return Allocator<A>;
    case Op::offset:
      return OffsetAllocator<A>;
    case Op::transfer:
      return TransferAllocator<A>;
    case Op::copy_from_disk:
      return DiskCopyAllocator<A>;
    case Op::extent:
      return ExtentAllocator<A>;
    case Op::fill:
      return FillAllocator<A>;
    case Op::map:
      return MappableAllocator<A>;
    case Op::queues:
      return QueueAllocator<A>;
  }
  return false;
}

template <class A>
bool supports_op(const A& a, Op op) {
  switch (op) {
    case Op::none:
      return true;
    case Op::offset:
      return supports_offset(a);
    case Op::transfer:
      return supports_transfer(a);
    case Op::copy_from_disk:
      return supports_copy_from_disk(a);
    case Op::extent:
      return supports_extent(a);
    case Op::fill:
      return supports_fill(a);
    case Op::map:
      return supports_map(a);
    case Op::queues:
      return supports_queues(a);
  }
  return false;
}

template <class A>
constexpr bool models_all(bool expected) {
  if (!Allocator<A>) return false;
  for (const Op op : every_op) {
    if (models_op<A>(op) != expected) return false;
  }
  return true;
}
template <template <class> class Adaptor, Op op>
constexpr bool models_only() {
  for (const Op other : every_op) {
    if (models_op<Only<op>>(other) != (other == op)) return false;
    if (models_op<Adaptor<Only<op>>>(other) != (other == op)) return false;
  }
  return Allocator<Adaptor<Only<op>>>;
}
template <template <class> class Adaptor>
constexpr bool forwards_each_alone() {
  return models_only<Adaptor, Op::none>() && models_only<Adaptor, Op::offset>() &&
         models_only<Adaptor, Op::transfer>() && models_only<Adaptor, Op::copy_from_disk>() &&
         models_only<Adaptor, Op::extent>() && models_only<Adaptor, Op::fill>() &&
         models_only<Adaptor, Op::map>() && models_only<Adaptor, Op::queues>();
}

template <class A>
using Limiting = LimitingAllocator<A>;
template <class A>
using Counting = StatisticsAllocator<A>;
template <class A>
using Failing = FailingAllocator<A>;

static_assert(forwards_each_alone<Limiting>());
static_assert(forwards_each_alone<Counting>());
static_assert(forwards_each_alone<Failing>());

using Minimal = models::Plain<models::SmallBuffer>;
using MoveOnly = models::Plain<models::MoveOnlyBuffer>;
using Full = models::Rich<'a'>;

static_assert(models_all<Minimal>(false) && models_all<Full>(true) && models_all<PackedAllocator>(true));
static_assert(models_all<Limiting<Minimal>>(false) && models_all<Limiting<Full>>(true));
static_assert(models_all<Counting<Minimal>>(false) && models_all<Counting<Full>>(true));
static_assert(models_all<Failing<Minimal>>(false) && models_all<Failing<Full>>(true));
static_assert(models_all<Limiting<MoveOnly>>(false) && models_all<Counting<MoveOnly>>(false));
static_assert(models_all<Failing<MoveOnly>>(false));
static_assert(models_all<Limiting<Counting<Failing<Minimal>>>>(false));
static_assert(models_all<Limiting<Counting<Failing<Full>>>>(true));
static_assert(models_all<Limiting<PackedAllocator>>(true) && models_all<Counting<PackedAllocator>>(true));
static_assert(models_all<Failing<PackedAllocator>>(true));

/// Switches each operation of the model off alone, and looks through the adaptor.
template <class Adapted>
void check_run_time(const Full& model, const Adapted& adapted) {
  constexpr std::array names{"offset", "transfer", "copy_from_disk", "extent", "fill", "map", "queues"};
  for (const Op op : every_op) CHECK(supports_op(adapted, op));
  for (std::size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    model.state().offer(names[i], false);
    for (std::size_t j = 0; j < names.size(); ++j) {
      CAPTURE(names[j]);
      CHECK(supports_op(adapted, every_op[j]) == (i != j));
    }
    model.state().offer(names[i], true);
  }
}

template <class Adapted>
void check_minimal(Adapted adapted) {
  for (const Op op : every_op) CHECK_FALSE(supports_op(adapted, op));
  PackedAllocator packed = pack(std::move(adapted));
  for (const Op op : every_op) CHECK_FALSE(supports_op(packed, op));
  auto buf = packed.alloc(10);
  REQUIRE(message(buf) == "ok");
  CHECK(outcome(packed.offset(*buf, 1, 0)) == "unsupported");
  CHECK(outcome(packed.fill(*buf, std::byte{1})) == "unsupported");
  CHECK(outcome(packed.record()) == "unsupported");
  packed.free(std::move(*buf), 10);
}

}  // namespace

TEST_CASE("supports_... tells what upstream tells, typed and packed") {
  const Full model;
  check_run_time(model, Limiting<Full>(model, 100));
  check_run_time(model, Counting<Full>(model));
  check_run_time(model, Failing<Full>(model));
  check_run_time(model, pack(Limiting<Full>(model, 100)));
  check_run_time(model, pack(Counting<Full>(model)));
  check_run_time(model, pack(Failing<Full>(model)));
  check_run_time(model, Limiting<PackedAllocator>(pack(model), 100));
  check_run_time(model, Counting<PackedAllocator>(pack(model)));
  check_run_time(model, Failing<PackedAllocator>(pack(model)));
  check_run_time(model, pack(Limiting<PackedAllocator>(pack(Counting<Full>(model)), 100)));
}

TEST_CASE("over an allocator with none, every supports_... is false and every call unsupported") {
  check_minimal(Limiting<Minimal>(Minimal(), 100));
  check_minimal(Counting<Minimal>(Minimal()));
  check_minimal(Failing<Minimal>(Minimal()));
  check_minimal(Limiting<PackedAllocator>(pack(Minimal()), 100));
  check_minimal(Counting<PackedAllocator>(pack(Minimal())));
  check_minimal(Failing<PackedAllocator>(pack(Minimal())));
}

TEST_CASE("an adaptor is the upstream's instance and shows it") {
  Full model;
  Limiting<Counting<Failing<Full>>> stack(Counting<Failing<Full>>(Failing<Full>(model)), 100);
  CHECK(stack.info().instance == model.info().instance);
  CHECK(std::string(stack.info().backend) == "a");
  CHECK(&stack.upstream().upstream().upstream().state() == &model.state());
}
