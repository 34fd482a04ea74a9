// SPDX-License-Identifier: MIT
#include <berth/core/error.hpp>

#include <set>
#include <string>
#include <type_traits>

#include "support/catch.hpp"
#include "support/outcome.hpp"

using namespace berth;

static_assert(std::is_trivially_copyable_v<Error> && sizeof(Error) <= 96);
static_assert(std::is_trivially_destructible_v<Result<void>> &&
              std::is_trivially_destructible_v<Result<int>>);
static_assert(Error(Errc::misaligned).limited_to(64).limit() == 64, "usable in constant expressions");

TEST_CASE("every code has its own name") {
  std::set<std::string_view> names;
  for (int i = 0; i < errc_count; ++i) names.insert(to_string(static_cast<Errc>(i)));
  CHECK(names == std::set<std::string_view>{"out_of_memory",
                                            "exceeds_device_maximum",
                                            "invalid_size",
                                            "invalid_argument",
                                            "out_of_range",
                                            "misaligned",
                                            "unsupported",
                                            "wrong_backend",
                                            "wrong_allocator",
                                            "overlap",
                                            "mapped",
                                            "short_read",
                                            "io",
                                            "cancelled",
                                            "forked",
                                            "exiting",
                                            "library_missing",
                                            "symbol_missing",
                                            "no_device",
                                            "device_lost",
                                            "driver"});
  CHECK(errc_count == 21);
  CHECK(to_string(Errc::out_of_memory) == "out_of_memory");
  CHECK(to_string(Errc::mapped) == "mapped");
  CHECK(to_string(Errc::driver) == "driver");
}

TEST_CASE("what a failure does not know is absent") {
  const Error error(Errc::driver);
  CHECK(error.code() == Errc::driver);
  CHECK(error.backend().empty());
  CHECK(error.call().empty());
  CHECK(error.reason().empty());
  CHECK(error.status_name().empty());
  CHECK_FALSE(error.status());
  CHECK_FALSE(error.asked());
  CHECK_FALSE(error.position());
  CHECK_FALSE(error.limit());
  CHECK_FALSE(error.done());
  CHECK_FALSE(error.live());
  CHECK_FALSE(error.cached());
  CHECK(error.message() == "driver error");
}

TEST_CASE("each part is kept by itself, 0 included") {
  CHECK(Error(Errc::driver, "cuda").backend() == "cuda");
  CHECK(Error(Errc::driver).in("cuMemAlloc").call() == "cuMemAlloc");
  CHECK(Error(Errc::driver).because("of that").reason() == "of that");
  CHECK(Error(Errc::driver).with_status(0).status() == 0);
  CHECK(Error(Errc::driver).with_status(-4, "CL_X").status_name() == "CL_X");

  const auto numbers = [](const Error& error) {
    std::string text;
    for (const auto& number :
         {error.asked(), error.position(), error.limit(), error.done(), error.live(), error.cached()}) {
      text += number ? std::to_string(*number) + " " : "- ";
    }
    return text;
  };
  CHECK(numbers(Error(Errc::driver).asking(0)) == "0 - - - - - ");
  CHECK(numbers(Error(Errc::driver).at(0)) == "- 0 - - - - ");
  CHECK(numbers(Error(Errc::driver).limited_to(0)) == "- - 0 - - - ");
  CHECK(numbers(Error(Errc::driver).after(0)) == "- - - 0 - - ");
  CHECK(numbers(Error(Errc::driver).with_live(0)) == "- - - - 0 - ");
  CHECK(numbers(Error(Errc::driver).with_cached(0)) == "- - - - - 0 ");
  CHECK(
      numbers(
          Error(Errc::driver).asking(1).at(2).limited_to(3).after(4).with_live(5).with_cached(UINT64_MAX)) ==
      "1 2 3 4 5 18446744073709551615 ");
}

TEST_CASE("a driver's failure names its call, its status and the bytes") {
  CHECK(Error(Errc::out_of_memory, "opencl")
            .in("clCreateBuffer")
            .with_status(-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE")
            .asking(1048576)
            .message() == "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4), asked 1048576 bytes");
  CHECK(Error(Errc::driver, "cuda").in("cuLaunchKernel").with_status(719).message() ==
        "cuLaunchKernel: driver error (status 719)");
}

TEST_CASE("each code makes its sentence") {
  CHECK(Error(Errc::out_of_memory, "host")
            .in("alloc")
            .asking(80)
            .limited_to(64)
            .with_live(48)
            .with_cached(8)
            .message() ==
        "host alloc: out of memory, asked 80 bytes, the limit is 64 bytes, 48 bytes live, 8 bytes cached");
  CHECK(Error(Errc::exceeds_device_maximum, "opencl").in("alloc").asking(9).limited_to(8).message() ==
        "opencl alloc: larger than the device allocates at once, asked 9 bytes, the maximum is 8 bytes");
  CHECK(Error(Errc::invalid_size, "host").in("copy").asking(9).limited_to(8).message() ==
        "host copy: invalid size, asked 9 bytes, must be 8 bytes");
  CHECK(Error(Errc::invalid_argument, "host").in("alloc").because("zero and external_ptr").message() ==
        "host alloc: invalid argument (zero and external_ptr)");
  CHECK(Error(Errc::out_of_range, "host").in("view").asking(9).at(4).limited_to(8).message() ==
        "host view: out of range, asked 9 bytes, at byte 4, there are 8 bytes");
  CHECK(Error(Errc::misaligned, "opencl").in("attach").at(0x1001).limited_to(64).message() ==
        "opencl attach: misaligned, at 0x1001, must be a multiple of 64 bytes");
  CHECK(Error(Errc::unsupported, "disk").in("addr").message() == "disk addr: not supported");
  CHECK(
      Error(Errc::wrong_backend, "host").in("copyin").because("the buffer is of another backend").message() ==
      "host copyin: wrong backend (the buffer is of another backend)");
  CHECK(Error(Errc::wrong_allocator, "host").in("copyin").message() == "host copyin: wrong allocator");
  CHECK(Error(Errc::overlap, "opencl").in("claim").asking(16).at(0x2000).limited_to(32).message() ==
        "opencl claim: overlapping memory, asked 16 bytes, at 0x2000, shares bytes with a range of 32 bytes");
  CHECK(Error(Errc::mapped, "host").in("copyin").message() == "host copyin: mapped by the host");
  CHECK(Error(Errc::short_read, "disk").in("pread").asking(100).after(60).message() ==
        "disk pread: the file ended early, asked 100 bytes, 60 bytes done");
  CHECK(Error(Errc::io, "disk").in("pwrite").with_status(28, "ENOSPC").message() == "pwrite: ENOSPC (28)");
  CHECK(Error(Errc::cancelled, "disk").in("load").limited_to(100).after(60).message() ==
        "disk load: cancelled, of 100 bytes, 60 bytes done");
  CHECK(Error(Errc::forked, "host").message() == "host: berth was used before fork; the child cannot use it");
  CHECK(Error(Errc::exiting, "opencl").message() ==
        "opencl: the process is exiting; no driver is called any more");
  CHECK(Error(Errc::library_missing, "cuda").in("libcuda.so.1").message() ==
        "cuda libcuda.so.1: the driver's library is not installed");
  CHECK(Error(Errc::symbol_missing, "cuda").in("cuMemCreate").message() ==
        "cuda cuMemCreate: the driver's library lacks the function");
  CHECK(Error(Errc::no_device, "opencl").in("clGetDeviceIDs").limited_to(0).message() ==
        "opencl clGetDeviceIDs: no device, there are 0");
  CHECK(Error(Errc::device_lost, "cuda")
            .in("cuCtxSynchronize")
            .with_status(700, "CUDA_ERROR_ILLEGAL_ADDRESS")
            .message() == "cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
  CHECK(Error(Errc::driver).in("somewhere").message() == "somewhere: driver error");
}

TEST_CASE("an error takes over the call and status of its cause") {
  const Error full = Error(Errc::out_of_memory, "disk").in("alloc").asking(4096);
  CHECK(Error(full).caused_by(Error(Errc::io, "disk").in("fallocate").with_status(28, "ENOSPC")).message() ==
        "fallocate: ENOSPC (28), asked 4096 bytes");
  const Error bare = Error(full).caused_by(Error(Errc::io, "disk").in("fallocate").asking(1));
  CHECK(bare.call() == "fallocate");
  CHECK(bare.asked() == 4096U);
  CHECK_FALSE(bare.status().has_value());
}

TEST_CASE("fail makes the failing side of any Result") {
  const auto number = [](bool good) -> Result<int> {
    if (!good) return fail(Error(Errc::io).asking(3));
    return 7;
  };
  CHECK(number(true).value() == 7);
  CHECK(outcome(number(false)) == "io");
  CHECK(number(false).error().asked() == 3);
  CHECK(outcome(Result<void>(fail(Error(Errc::cancelled)))) == "cancelled");
  CHECK(outcome(Result<void>()) == "ok");
}
