// SPDX-License-Identifier: MIT
// The concepts ask what they say. Each clause has a counter-example: the valid model with one edit, told from
// the mended form by one template argument, so that the edit alone decides.
#include <berth/core/allocator.hpp>

#include "support/catch.hpp"
#include "support/models.hpp"

using namespace berth;

namespace {

// BufferHandle.

struct Handle {
  [[nodiscard]] std::size_t nbytes() const noexcept;
  [[nodiscard]] InstanceId instance() const noexcept;
  [[nodiscard]] bool is_view() const noexcept;
};
static_assert(BufferHandle<Handle>);
static_assert(BufferHandle<models::SmallBuffer> && BufferHandle<models::BigBuffer>);
static_assert(BufferHandle<models::MoveOnlyBuffer>);

template <bool nothrow>
struct HandleMove : Handle {
  HandleMove(HandleMove&&) noexcept(nothrow);
};
using MoveMayThrow = HandleMove<false>;
static_assert(BufferHandle<HandleMove<true>>);
static_assert(!BufferHandle<MoveMayThrow>);

template <bool movable>
struct HandleMovable : Handle {
  HandleMovable(HandleMovable&&) noexcept
    requires movable;
  HandleMovable(const HandleMovable&) = delete;
};
using CannotMove = HandleMovable<false>;
static_assert(BufferHandle<HandleMovable<true>>);
static_assert(!BufferHandle<CannotMove>);

template <bool nothrow>
struct HandleDestructor : Handle {
  HandleDestructor(HandleDestructor&&) noexcept;
  ~HandleDestructor() noexcept(nothrow);
};
using DestructorMayThrow = HandleDestructor<false>;
static_assert(BufferHandle<HandleDestructor<true>>);
static_assert(!BufferHandle<DestructorMayThrow>);

template <class Nbytes>
struct HandleNbytes : Handle {
  [[nodiscard]] Nbytes nbytes() const noexcept;
};
using NbytesIsNoSize = HandleNbytes<int>;
static_assert(BufferHandle<HandleNbytes<std::size_t>>);
static_assert(!BufferHandle<NbytesIsNoSize>);

template <bool nothrow>
struct HandleNbytesNoexcept : Handle {
  [[nodiscard]] std::size_t nbytes() const noexcept(nothrow);
};
using NbytesMayThrow = HandleNbytesNoexcept<false>;
static_assert(BufferHandle<HandleNbytesNoexcept<true>>);
static_assert(!BufferHandle<NbytesMayThrow>);

template <bool is_const>
struct HandleNbytesConst : Handle {
  [[nodiscard]] std::size_t nbytes() const noexcept
    requires is_const;
  [[nodiscard]] std::size_t nbytes() noexcept;
};
using NbytesChangesTheHandle = HandleNbytesConst<false>;
static_assert(BufferHandle<HandleNbytesConst<true>>);
static_assert(!BufferHandle<NbytesChangesTheHandle>);

template <class Id>
struct HandleInstance : Handle {
  [[nodiscard]] Id instance() const noexcept;
};
using InstanceIsANumber = HandleInstance<std::uint64_t>;
static_assert(BufferHandle<HandleInstance<InstanceId>>);
static_assert(!BufferHandle<InstanceIsANumber>);

template <bool nothrow>
struct HandleInstanceNoexcept : Handle {
  [[nodiscard]] InstanceId instance() const noexcept(nothrow);
};
using InstanceMayThrow = HandleInstanceNoexcept<false>;
static_assert(BufferHandle<HandleInstanceNoexcept<true>>);
static_assert(!BufferHandle<InstanceMayThrow>);

template <class Answer>
struct HandleIsView : Handle {
  [[nodiscard]] Answer is_view() const noexcept;
};
using IsViewIsAnInt = HandleIsView<int>;
static_assert(BufferHandle<HandleIsView<bool>>);
static_assert(!BufferHandle<IsViewIsAnInt>);

template <bool nothrow>
struct HandleIsViewNoexcept : Handle {
  [[nodiscard]] bool is_view() const noexcept(nothrow);
};
using IsViewMayThrow = HandleIsViewNoexcept<false>;
static_assert(BufferHandle<HandleIsViewNoexcept<true>>);
static_assert(!BufferHandle<IsViewMayThrow>);

static_assert(!BufferHandle<void> && !BufferHandle<int> && !BufferHandle<void*>);
static_assert(!BufferHandle<Handle&> && !BufferHandle<Handle*>);

// Allocator.

struct Valid {
  using buffer_type = Handle;
  [[nodiscard]] Result<Handle> alloc(std::size_t, const BufferSpec&);
  void free(Handle, std::size_t, const BufferSpec&) noexcept;
  [[nodiscard]] Result<void> copyin(const Handle&, std::span<const std::byte>);
  [[nodiscard]] Result<void> copyout(std::span<std::byte>, const Handle&);
  [[nodiscard]] Result<std::uintptr_t> addr(const Handle&);
  [[nodiscard]] AllocatorInfo info() const;
  [[nodiscard]] Result<void> synchronize();
};
static_assert(Allocator<Valid> && Allocator<Valid, Handle>);
static_assert(std::same_as<buffer_t<Valid>, Handle>);

// What is no allocator is answered, not a hard error.
static_assert(!Allocator<int> && !Allocator<void*> && !Allocator<void> && !Allocator<Valid&>);
static_assert(std::is_void_v<buffer_t<int>> && std::is_void_v<buffer_t<void*>> &&
              std::is_void_v<buffer_t<void>>);

// The operations of Valid, without the name of its buffer.
struct ValidOperations {
  [[nodiscard]] Result<Handle> alloc(std::size_t, const BufferSpec&);
  void free(Handle, std::size_t, const BufferSpec&) noexcept;
  [[nodiscard]] Result<void> copyin(const Handle&, std::span<const std::byte>);
  [[nodiscard]] Result<void> copyout(std::span<std::byte>, const Handle&);
  [[nodiscard]] Result<std::uintptr_t> addr(const Handle&);
  [[nodiscard]] AllocatorInfo info() const;
  [[nodiscard]] Result<void> synchronize();
};
using NamesNoBuffer = ValidOperations;
struct NamesItsBuffer : ValidOperations {
  using buffer_type = Handle;
};
static_assert(Allocator<NamesItsBuffer>);
static_assert(!Allocator<NamesNoBuffer>);
static_assert(Allocator<NamesNoBuffer, Handle>, "said by hand, it is one");

template <class Buf>
struct BufferType : Valid {
  using buffer_type = Buf;
};
struct Unrelated : Handle {};
using NamesAnotherBuffer = BufferType<Unrelated>;
static_assert(Allocator<BufferType<Handle>>);
static_assert(!Allocator<NamesAnotherBuffer>);

template <bool nothrow>
struct Move : Valid {
  Move(Move&&) noexcept(nothrow);
};
using AllocatorMoveMayThrow = Move<false>;
static_assert(Allocator<Move<true>>);
static_assert(!Allocator<AllocatorMoveMayThrow>);

template <bool nothrow>
struct Destructor : Valid {
  Destructor(Destructor&&) noexcept;
  ~Destructor() noexcept(nothrow);
};
using AllocatorDestructorMayThrow = Destructor<false>;
static_assert(Allocator<Destructor<true>>);
static_assert(!Allocator<AllocatorDestructorMayThrow>);

template <class R>
struct Alloc : Valid {
  [[nodiscard]] R alloc(std::size_t, const BufferSpec&);
};
using AllocGivesABareBuffer = Alloc<Handle>;
using AllocGivesAnotherBuffer = Alloc<Result<Unrelated>>;
static_assert(Allocator<Alloc<Result<Handle>>>);
static_assert(!Allocator<AllocGivesABareBuffer>);
static_assert(!Allocator<AllocGivesAnotherBuffer>);

template <class... Rest>
struct AllocParameters : Valid {
  [[nodiscard]] Result<Handle> alloc(std::size_t, Rest...);
};
using AllocTakesNoSpec = AllocParameters<>;
using AllocWantsAMutableSpec = AllocParameters<BufferSpec&>;
static_assert(Allocator<AllocParameters<const BufferSpec&>>);
static_assert(!Allocator<AllocTakesNoSpec>);
static_assert(!Allocator<AllocWantsAMutableSpec>);

template <bool present>
struct AllocPresent : Valid {
  [[nodiscard]] Result<Handle> alloc(std::size_t, const BufferSpec&)
    requires present;
};
using HasNoAlloc = AllocPresent<false>;
static_assert(Allocator<AllocPresent<true>>);
static_assert(!Allocator<HasNoAlloc>);

template <bool nothrow>
struct Free : Valid {
  void free(Handle, std::size_t, const BufferSpec&) noexcept(nothrow);
};
using FreeMayThrow = Free<false>;
static_assert(Allocator<Free<true>>);
static_assert(!Allocator<FreeMayThrow>);

template <class R>
struct FreeReturns : Valid {
  [[nodiscard]] R free(Handle, std::size_t, const BufferSpec&) noexcept;
};
using FreeGivesAResult = FreeReturns<Result<void>>;
static_assert(Allocator<FreeReturns<void>>);
static_assert(!Allocator<FreeGivesAResult>);

template <class Buf>
struct FreeTakes : Valid {
  void free(Buf, std::size_t, const BufferSpec&) noexcept;
};
using FreeWantsALeftValue = FreeTakes<Handle&>;
static_assert(Allocator<FreeTakes<Handle>>);
static_assert(Allocator<FreeTakes<Handle&&>>);
static_assert(!Allocator<FreeWantsALeftValue>);

template <class R>
struct Copyin : Valid {
  [[nodiscard]] R copyin(const Handle&, std::span<const std::byte>);
};
using CopyinGivesNothing = Copyin<void>;
static_assert(Allocator<Copyin<Result<void>>>);
static_assert(!Allocator<CopyinGivesNothing>);

template <class Buf, class Source>
struct CopyinParameters : Valid {
  [[nodiscard]] Result<void> copyin(Buf, Source);
};
using CopyinWantsAMutableBuffer = CopyinParameters<Handle&, std::span<const std::byte>>;
using CopyinWantsAMutableSource = CopyinParameters<const Handle&, std::span<std::byte>>;
static_assert(Allocator<CopyinParameters<const Handle&, std::span<const std::byte>>>);
static_assert(!Allocator<CopyinWantsAMutableBuffer>);
static_assert(!Allocator<CopyinWantsAMutableSource>);

template <class R>
struct Copyout : Valid {
  [[nodiscard]] R copyout(std::span<std::byte>, const Handle&);
};
using CopyoutGivesACount = Copyout<Result<std::size_t>>;
static_assert(Allocator<Copyout<Result<void>>>);
static_assert(!Allocator<CopyoutGivesACount>);

template <class First, class Second>
struct CopyoutParameters : Valid {
  [[nodiscard]] Result<void> copyout(First, Second);
};
using CopyoutIsTurnedAround = CopyoutParameters<const Handle&, std::span<std::byte>>;
using CopyoutWantsAMutableBuffer = CopyoutParameters<std::span<std::byte>, Handle&>;
static_assert(Allocator<CopyoutParameters<std::span<std::byte>, const Handle&>>);
static_assert(!Allocator<CopyoutIsTurnedAround>);
static_assert(!Allocator<CopyoutWantsAMutableBuffer>);

template <class R>
struct Addr : Valid {
  [[nodiscard]] R addr(const Handle&);
};
using AddrGivesAPointer = Addr<Result<void*>>;
using AddrCannotFail = Addr<std::uintptr_t>;
static_assert(Allocator<Addr<Result<std::uintptr_t>>>);
static_assert(!Allocator<AddrGivesAPointer>);
static_assert(!Allocator<AddrCannotFail>);

template <class R>
struct Info : Valid {
  [[nodiscard]] R info() const;
};
using InfoIsAReference = Info<const AllocatorInfo&>;
static_assert(Allocator<Info<AllocatorInfo>>);
static_assert(!Allocator<InfoIsAReference>);

template <bool is_const>
struct InfoConst : Valid {
  [[nodiscard]] AllocatorInfo info() const
    requires is_const;
  [[nodiscard]] AllocatorInfo info();
};
using InfoChangesTheAllocator = InfoConst<false>;
static_assert(Allocator<InfoConst<true>>);
static_assert(!Allocator<InfoChangesTheAllocator>);

template <class R>
struct Synchronize : Valid {
  [[nodiscard]] R synchronize();
};
using SynchronizeGivesNothing = Synchronize<void>;
static_assert(Allocator<Synchronize<Result<void>>>);
static_assert(!Allocator<SynchronizeGivesNothing>);

// The refinements: none of Valid's business, and each is an Allocator whatever its fault.

static_assert(!OffsetAllocator<Valid> && !TransferAllocator<Valid> && !DiskCopyAllocator<Valid> &&
              !ExtentAllocator<Valid> && !FillAllocator<Valid> && !MappableAllocator<Valid> &&
              !QueueAllocator<Valid>);
static_assert(!OffsetAllocator<int> && !TransferAllocator<int> && !DiskCopyAllocator<int> &&
              !ExtentAllocator<int> && !FillAllocator<int> && !MappableAllocator<int> &&
              !QueueAllocator<int>);

// A refinement of something that is no allocator is none.
template <class R>
struct OffsetOverAlloc : Alloc<R> {
  [[nodiscard]] Result<Handle> offset(const Handle&, std::size_t, std::size_t);
  [[nodiscard]] bool supports_offset() const noexcept;
};
using OffsetOfNoAllocator = OffsetOverAlloc<Handle>;
static_assert(OffsetAllocator<OffsetOverAlloc<Result<Handle>>>);
static_assert(!OffsetAllocator<OffsetOfNoAllocator>);

template <class R = Result<Handle>, class Answer = bool, bool nothrow = true, class Buf = const Handle&>
struct Offset : Valid {
  [[nodiscard]] R offset(Buf, std::size_t nbytes, std::size_t byte_offset);
  [[nodiscard]] Answer supports_offset() const noexcept(nothrow);
};
using OffsetGivesABareBuffer = Offset<Handle>;
using OffsetSupportIsAnInt = Offset<Result<Handle>, int>;
using OffsetSupportMayThrow = Offset<Result<Handle>, bool, false>;
using OffsetTakesTheBuffer = Offset<Result<Handle>, bool, true, Handle&&>;
static_assert(OffsetAllocator<Offset<>>);
static_assert(!OffsetAllocator<OffsetGivesABareBuffer> && Allocator<OffsetGivesABareBuffer>);
static_assert(!OffsetAllocator<OffsetSupportIsAnInt> && Allocator<OffsetSupportIsAnInt>);
static_assert(!OffsetAllocator<OffsetSupportMayThrow> && Allocator<OffsetSupportMayThrow>);
static_assert(!OffsetAllocator<OffsetTakesTheBuffer> && Allocator<OffsetTakesTheBuffer>);

template <bool present>
struct OffsetSupports : Valid {
  [[nodiscard]] Result<Handle> offset(const Handle&, std::size_t nbytes, std::size_t byte_offset);
  [[nodiscard]] bool supports_offset() const noexcept
    requires present;
};
using OffsetWithoutSupports = OffsetSupports<false>;
static_assert(OffsetAllocator<OffsetSupports<true>>);
static_assert(!OffsetAllocator<OffsetWithoutSupports>);

template <class R = Result<void>, class Answer = bool, bool nothrow = true, class Source = const Handle&>
struct Transfer : Valid {
  [[nodiscard]] R transfer(const Handle& dest, Source src, std::size_t nbytes);
  [[nodiscard]] Answer supports_transfer() const noexcept(nothrow);
};
using TransferGivesNothing = Transfer<void>;
using TransferSupportIsAnInt = Transfer<Result<void>, int>;
using TransferSupportMayThrow = Transfer<Result<void>, bool, false>;
using TransferWantsAMutableSource = Transfer<Result<void>, bool, true, Handle&>;
static_assert(TransferAllocator<Transfer<>>);
static_assert(!TransferAllocator<TransferGivesNothing> && Allocator<TransferGivesNothing>);
static_assert(!TransferAllocator<TransferSupportIsAnInt> && Allocator<TransferSupportIsAnInt>);
static_assert(!TransferAllocator<TransferSupportMayThrow> && Allocator<TransferSupportMayThrow>);
static_assert(!TransferAllocator<TransferWantsAMutableSource> && Allocator<TransferWantsAMutableSource>);

template <class R = Result<DiskCopy>, class Answer = bool, bool nothrow = true,
          class Extent = const FileExtent&, class Loaded = Result<DiskCopy>>
struct CopyFromDisk : Valid {
  [[nodiscard]] R copy_from_disk(const Handle& dest, Extent extent, std::size_t nbytes);
  [[nodiscard]] Loaded load(std::span<const LoadRange<Handle>> ranges, const LoadOptions& options);
  [[nodiscard]] Answer supports_copy_from_disk() const noexcept(nothrow);
};
using CopyFromDiskTellsNoPath = CopyFromDisk<Result<void>>;
using CopyFromDiskSupportIsAnInt = CopyFromDisk<Result<DiskCopy>, int>;
using CopyFromDiskSupportMayThrow = CopyFromDisk<Result<DiskCopy>, bool, false>;
using CopyFromDiskTakesADescriptor = CopyFromDisk<Result<DiskCopy>, bool, true, int>;
using LoadTellsNoPath = CopyFromDisk<Result<DiskCopy>, bool, true, const FileExtent&, Result<void>>;
static_assert(DiskCopyAllocator<CopyFromDisk<>>);
static_assert(!DiskCopyAllocator<LoadTellsNoPath> && Allocator<LoadTellsNoPath>);
static_assert(!DiskCopyAllocator<CopyFromDiskTellsNoPath> && Allocator<CopyFromDiskTellsNoPath>);
static_assert(!DiskCopyAllocator<CopyFromDiskSupportIsAnInt> && Allocator<CopyFromDiskSupportIsAnInt>);
static_assert(!DiskCopyAllocator<CopyFromDiskSupportMayThrow> && Allocator<CopyFromDiskSupportMayThrow>);
static_assert(!DiskCopyAllocator<CopyFromDiskTakesADescriptor> && Allocator<CopyFromDiskTakesADescriptor>);

template <class R = Result<FileExtent>, class Answer = bool, bool nothrow = true>
struct Extent : Valid {
  [[nodiscard]] R extent(const Handle&);
  [[nodiscard]] Answer supports_extent() const noexcept(nothrow);
};
using ExtentCannotFail = Extent<FileExtent>;
using ExtentSupportIsAnInt = Extent<Result<FileExtent>, int>;
using ExtentSupportMayThrow = Extent<Result<FileExtent>, bool, false>;
static_assert(ExtentAllocator<Extent<>>);
static_assert(!ExtentAllocator<ExtentCannotFail> && Allocator<ExtentCannotFail>);
static_assert(!ExtentAllocator<ExtentSupportIsAnInt> && Allocator<ExtentSupportIsAnInt>);
static_assert(!ExtentAllocator<ExtentSupportMayThrow> && Allocator<ExtentSupportMayThrow>);

template <class R = Result<void>, class Answer = bool, bool nothrow = true, class Value = std::byte>
struct Fill : Valid {
  [[nodiscard]] R fill(const Handle&, Value);
  [[nodiscard]] Answer supports_fill() const noexcept(nothrow);
};
using FillGivesNothing = Fill<void>;
using FillSupportIsAnInt = Fill<Result<void>, int>;
using FillSupportMayThrow = Fill<Result<void>, bool, false>;
using FillTakesAnInt = Fill<Result<void>, bool, true, int>;
static_assert(FillAllocator<Fill<>>);
static_assert(!FillAllocator<FillGivesNothing> && Allocator<FillGivesNothing>);
static_assert(!FillAllocator<FillSupportIsAnInt> && Allocator<FillSupportIsAnInt>);
static_assert(!FillAllocator<FillSupportMayThrow> && Allocator<FillSupportMayThrow>);
static_assert(!FillAllocator<FillTakesAnInt> && Allocator<FillTakesAnInt>);

template <class R = Result<Mapping>, class Answer = bool, bool nothrow = true, class... Range>
struct MapOf : Valid {
  [[nodiscard]] R map(const Handle&, Access, Range...);
  [[nodiscard]] Answer supports_map() const noexcept(nothrow);
};
template <class R = Result<Mapping>, class Answer = bool, bool nothrow = true>
using Map = MapOf<R, Answer, nothrow, std::size_t, std::size_t>;
using MapGivesABareSpan = Map<Result<std::span<std::byte>>>;
using MapSupportIsAnInt = Map<Result<Mapping>, int>;
using MapSupportMayThrow = Map<Result<Mapping>, bool, false>;
using MapTakesNoOffset = MapOf<Result<Mapping>, bool, true, std::size_t>;
static_assert(MappableAllocator<Map<>>);
static_assert(!MappableAllocator<MapGivesABareSpan> && Allocator<MapGivesABareSpan>);
static_assert(!MappableAllocator<MapSupportIsAnInt> && Allocator<MapSupportIsAnInt>);
static_assert(!MappableAllocator<MapSupportMayThrow> && Allocator<MapSupportMayThrow>);
static_assert(!MappableAllocator<MapTakesNoOffset> && Allocator<MapTakesNoOffset>);

template <class Self>
struct Queues : Valid {
  [[nodiscard]] Result<Self> on(const Queue&);
  [[nodiscard]] Result<void> record_use(const Handle&, const Queue&);
  [[nodiscard]] Result<Event> record();
  [[nodiscard]] Result<void> wait(const Event&);
  [[nodiscard]] bool supports_queues() const noexcept;
};
struct ValidQueues : Queues<ValidQueues> {};
static_assert(QueueAllocator<ValidQueues>);

struct OnGivesAnotherAllocator : Queues<ValidQueues> {};
static_assert(!QueueAllocator<OnGivesAnotherAllocator> && Allocator<OnGivesAnotherAllocator>);

template <class R>
struct RecordUse : Queues<RecordUse<R>> {
  [[nodiscard]] R record_use(const Handle&, const Queue&);
};
using RecordUseCannotFail = RecordUse<void>;
static_assert(QueueAllocator<RecordUse<Result<void>>>);
static_assert(!QueueAllocator<RecordUseCannotFail> && Allocator<RecordUseCannotFail>);

template <class R>
struct Record : Queues<Record<R>> {
  [[nodiscard]] R record();
};
using RecordGivesAQueue = Record<Result<Queue>>;
static_assert(QueueAllocator<Record<Result<Event>>>);
static_assert(!QueueAllocator<RecordGivesAQueue> && Allocator<RecordGivesAQueue>);

template <class On>
struct Wait : Queues<Wait<On>> {
  [[nodiscard]] Result<void> wait(const On&);
};
using WaitTakesAQueue = Wait<Queue>;
static_assert(QueueAllocator<Wait<Event>>);
static_assert(!QueueAllocator<WaitTakesAQueue> && Allocator<WaitTakesAQueue>);

template <class Answer, bool nothrow = true>
struct QueueSupport : Queues<QueueSupport<Answer, nothrow>> {
  [[nodiscard]] Answer supports_queues() const noexcept(nothrow);
};
using QueueSupportIsAnInt = QueueSupport<int>;
using QueueSupportMayThrow = QueueSupport<bool, false>;
static_assert(QueueAllocator<QueueSupport<bool>>);
static_assert(!QueueAllocator<QueueSupportIsAnInt> && Allocator<QueueSupportIsAnInt>);
static_assert(!QueueAllocator<QueueSupportMayThrow> && Allocator<QueueSupportMayThrow>);

// A parameter can say which buffers it wants, and overloads can tell refinements apart.

std::size_t bytes_of_small(Allocator<models::SmallBuffer> auto& allocator) {
  auto buf = allocator.alloc(48, {});
  if (!buf) return 0;
  const std::size_t nbytes = buf->nbytes();
  allocator.free(std::move(*buf), nbytes, {});
  return nbytes;
}
template <class A>
concept AcceptedAsSmall = requires(A& allocator) { bytes_of_small(allocator); };
static_assert(AcceptedAsSmall<models::Plain<models::SmallBuffer>>);
static_assert(!AcceptedAsSmall<models::Plain<models::BigBuffer>> && !AcceptedAsSmall<int>);

constexpr const char* most_refined(const Allocator auto&) { return "plain"; }
template <OffsetAllocator A>
constexpr const char* most_refined(const A&) {
  return "offset";
}

}  // namespace

TEST_CASE("a parameter is constrained by the buffer") {
  models::Plain<models::SmallBuffer> allocator;
  CHECK(bytes_of_small(allocator) == 48);
  CHECK(allocator.state().calls() == models::Counts{{"alloc", 1}, {"free", 1}});
}

TEST_CASE("an overload for a refinement is preferred") {
  CHECK(most_refined(models::Plain<models::SmallBuffer>()) == std::string("plain"));
  CHECK(most_refined(models::Rich<'a'>()) == std::string("offset"));
}

TEST_CASE("supports_ answers no for a type without the operation") {
  const models::Plain<models::SmallBuffer> plain;
  CHECK_FALSE(supports_offset(plain));
  CHECK_FALSE(supports_transfer(plain));
  CHECK_FALSE(supports_copy_from_disk(plain));
  CHECK_FALSE(supports_extent(plain));
  CHECK_FALSE(supports_fill(plain));
  CHECK_FALSE(supports_map(plain));
  CHECK_FALSE(supports_queues(plain));
}

TEST_CASE("supports_ asks an allocator that has the operation, each about its own") {
  const models::Rich<'a'> rich;
  const auto answers = [&] {
    std::set<std::string> yes;
    if (supports_offset(rich)) yes.insert("offset");
    if (supports_transfer(rich)) yes.insert("transfer");
    if (supports_copy_from_disk(rich)) yes.insert("copy_from_disk");
    if (supports_extent(rich)) yes.insert("extent");
    if (supports_fill(rich)) yes.insert("fill");
    if (supports_map(rich)) yes.insert("map");
    if (supports_queues(rich)) yes.insert("queues");
    return yes;
  };
  const std::set<std::string> all{"offset", "transfer", "copy_from_disk", "extent", "fill", "map", "queues"};
  CHECK(answers() == all);
  for (const std::string& operation : all) {
    rich.state().offer(operation, false);
    auto others = all;
    others.erase(operation);
    CHECK(answers() == others);
    rich.state().offer(operation, true);
  }
}
