// SPDX-License-Identifier: MIT
#include <berth/io/os_error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>

namespace berth::inline BERTH_ABI::io {
namespace {

struct Name {
  int status;
  const char* text;
};

// What opening, reading and writing files answer.
constexpr auto names = std::to_array<Name>({
    {EPERM, "EPERM"},         {ENOENT, "ENOENT"},
    {EINTR, "EINTR"},         {EIO, "EIO"},
    {ENXIO, "ENXIO"},         {EBADF, "EBADF"},
    {EAGAIN, "EAGAIN"},       {ENOMEM, "ENOMEM"},
    {EACCES, "EACCES"},       {EFAULT, "EFAULT"},
    {EBUSY, "EBUSY"},         {EEXIST, "EEXIST"},
    {EXDEV, "EXDEV"},         {ENODEV, "ENODEV"},
    {ENOTDIR, "ENOTDIR"},     {EISDIR, "EISDIR"},
    {EINVAL, "EINVAL"},       {ENFILE, "ENFILE"},
    {EMFILE, "EMFILE"},       {ETXTBSY, "ETXTBSY"},
    {EFBIG, "EFBIG"},         {ENOSPC, "ENOSPC"},
    {ESPIPE, "ESPIPE"},       {EROFS, "EROFS"},
    {EPIPE, "EPIPE"},         {ENAMETOOLONG, "ENAMETOOLONG"},
    {ENOSYS, "ENOSYS"},       {ELOOP, "ELOOP"},
    {EOVERFLOW, "EOVERFLOW"}, {EOPNOTSUPP, "EOPNOTSUPP"},
    {ETIMEDOUT, "ETIMEDOUT"}, {ESTALE, "ESTALE"},
    {EDQUOT, "EDQUOT"},
});

}  // namespace

const char* errno_name(int status) noexcept {
  const auto found = std::ranges::find(names, status, &Name::status);
  return found != names.end() ? found->text : "";
}

}  // namespace berth::inline BERTH_ABI::io
