// SPDX-License-Identifier: MIT
#include "program.hpp"

#include <string>

namespace berth::tool {
namespace {

std::string build_log(cl_program program, cl_device_id device) {
  std::size_t nbytes = 0;
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &nbytes) != CL_SUCCESS)
    return {};
  std::string log(nbytes, '\0');
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, nbytes, log.data(), nullptr) != CL_SUCCESS)
    return {};
  log.resize(log.find_last_not_of(std::string_view("\0\n ", 3)) + 1);
  return log;
}

}  // namespace

Outcome<void> check(cl_int status, const char* call) {
  if (status == CL_SUCCESS) return {};
  return complain(Error(Errc::driver, "opencl").in(call).with_status(status));
}

Outcome<Program> build_program(cl_context context, cl_device_id device, const char* source) {
  cl_int status = CL_SUCCESS;
  Program program(clCreateProgramWithSource(context, 1, &source, nullptr, &status));
  if (auto created = check(status, "clCreateProgramWithSource"); !created) return complain(created.error());
  const cl_int built = clBuildProgram(program.get(), 1, &device, "-cl-std=CL1.2", nullptr, nullptr);
  if (auto right = check(built, "clBuildProgram"); !right) {
    const std::string log = build_log(program.get(), device);
    return complain(log.empty() ? right.error() : right.error() + "\n" + log);
  }
  return program;
}

Outcome<Kernel> make_kernel(const Program& program, const char* name) {
  cl_int status = CL_SUCCESS;
  Kernel kernel(clCreateKernel(program.get(), name, &status));
  if (auto created = check(status, "clCreateKernel"); !created) return complain(created.error());
  return kernel;
}

}  // namespace berth::tool
