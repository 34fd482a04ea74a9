"""Uses berth as another project would. Each scenario is one test.

usage: consumer.py SCENARIO --source=DIR --build=DIR --stage=DIR ... (see tests/consumer/CMakeLists.txt)
"""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def run(*command, env=None):
    """Runs a command; it must succeed. Returns what it printed."""
    result = attempt(*command, env=env)
    if result.returncode != 0:
        sys.exit(f"failed with status {result.returncode}: {shlex.join(map(str, command))}\n{result.stdout}")
    return result.stdout


def attempt(*command, env=None):
    print("$", shlex.join(map(str, command)), flush=True)
    environment = {**os.environ, **(env or {})}
    return subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def require(condition, complaint):
    if not condition:
        sys.exit(complaint)


class Scenarios:
    def __init__(self, options):
        self.options = options
        self.prefix = options.stage / "moved" / "prefix"
        self.libdir = self.prefix / options.libdir
        self.compiler = [options.compiler, *shlex.split(options.flags)]
        # program -> its source and pkg-config module
        self.programs = {"consumer": ("main.cpp", "berth")}
        if options.opencl == "ON":
            self.programs["consumer_opencl"] = ("opencl.cpp", "berth-opencl")
        if options.cuda == "ON":
            self.programs["consumer_cuda"] = ("cuda.cpp", "berth-cuda")

    def fresh_folder(self, name):
        folder = self.options.stage / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def configure(self, project, folder, *settings):
        return [
            "cmake", "-S", HERE / project, "-B", folder, f"-G{self.options.generator}",
            f"-DCMAKE_CXX_COMPILER={self.options.compiler}", f"-DCMAKE_CXX_FLAGS={self.options.flags}", *settings,
        ]  # fmt: skip

    def build_and_run(self, folder):
        run("cmake", "--build", folder, "--parallel", "2")
        for program in self.programs:
            run(folder / program)

    def install(self):
        """Installs into a prefix and moves it: all headers are there, and nothing names where it was built."""
        first = self.fresh_folder("first") / "prefix"
        run("cmake", "--install", self.options.build, "--prefix", first)
        self.fresh_folder("moved")
        first.rename(self.prefix)

        include = self.options.source / "include"
        left_out = [name for name in ("opencl", "cuda") if getattr(self.options, name) == "OFF"]
        for header in include.rglob("*.hpp"):
            name = header.relative_to(include)
            require(name.parts[1] in left_out or (self.prefix / "include" / name).exists(), f"{name} is not installed")

        for path in self.prefix.rglob("*"):
            if path.suffix in (".cmake", ".pc", ".hpp"):
                text = path.read_text(encoding="utf-8")
                for place in (self.options.source, self.options.build, first):
                    require(str(place) not in text, f"{path} names {place}")

    def find_package(self):
        folder = self.fresh_folder("find_package")
        hidden = ["-DCMAKE_DISABLE_FIND_PACKAGE_OpenCL=ON"] if self.options.shared == "ON" else []
        run(*self.configure("project", folder, f"-DCMAKE_PREFIX_PATH={self.prefix}", *hidden))
        self.build_and_run(folder)

    def add_subdirectory(self):
        folder = self.fresh_folder("add_subdirectory")
        run(*self.configure(
            "project", folder, f"-DBERTH_SOURCE={self.options.source}", f"-DBERTH_EXPECTED={self.options.expected}",
            f"-DBUILD_SHARED_LIBS={self.options.shared}", f"-DBERTH_OPENCL={self.options.opencl}",
            f"-DBERTH_CUDA={self.options.cuda}",
        ))  # fmt: skip
        self.build_and_run(folder)

    def pkg_config(self):
        folder = self.fresh_folder("pkg_config")
        static = ["--static"] if self.options.shared == "OFF" else []
        for program, (source, module) in self.programs.items():
            flags = run("pkg-config", "--cflags", "--libs", *static, module,
                        env={"PKG_CONFIG_PATH": str(self.libdir / "pkgconfig")})  # fmt: skip
            run(*self.compiler, HERE / "project" / source, "-o", folder / program, *shlex.split(flags),
                f"-Wl,-rpath,{self.libdir}")  # fmt: skip
            run(folder / program)

    def mode_mix(self):
        """An object of the other mode does not link with this library; the same source of this mode does."""
        folder = self.fresh_folder("mode_mix")
        other = "tl" if self.options.expected == "std" else "std"
        config = pathlib.Path("include", "berth", "core", "config.hpp")
        text = (self.prefix / config).read_text(encoding="utf-8")
        text = re.sub(r"BERTH_EXPECTED_STD \d", f"BERTH_EXPECTED_STD {int(other == 'std')}", text)
        text = re.sub(r"BERTH_ABI \w+", f"BERTH_ABI {other}_v0", text)
        (folder / config).parent.mkdir(parents=True)
        (folder / config).write_text(text, encoding="utf-8")

        source = folder / "mode_mix.cpp"
        source.write_text("#include <berth/core/identity.hpp>\n"
                          "int main() { return berth::next_instance_id().value == 0; }\n", encoding="utf-8")  # fmt: skip
        standard = {"std": "-std=c++23", "tl": "-std=c++20"}
        includes = {self.options.expected: [], other: [f"-I{folder / 'include'}"]}
        results = {}
        for mode in (self.options.expected, other):
            run(*self.compiler, standard[mode], *includes[mode], f"-I{self.prefix / 'include'}", "-c", source,
                "-o", folder / f"{mode}.o")  # fmt: skip
            results[mode] = attempt(*self.compiler, folder / f"{mode}.o", "-o", folder / mode, f"-L{self.libdir}",
                                    "-lberth", "-pthread")  # fmt: skip
        control, mixed = results[self.options.expected], results[other]
        require(control.returncode == 0, f"the control does not link:\n{control.stdout}")
        require(mixed.returncode != 0, f"an object of mode {other} links with a library of mode {self.options.expected}")
        require(f"{other}_v0::next_instance_id" in mixed.stdout, f"fails for another reason:\n{mixed.stdout}")

    def cuda_language(self):
        """With std::expected the package refuses a project with the CUDA language, and says what to do."""
        folder = self.fresh_folder("cuda_language")
        result = attempt(*self.configure("cuda_language", folder, f"-DCMAKE_PREFIX_PATH={self.prefix}"))
        if self.options.expected == "std":
            require(result.returncode != 0, "the package was found")
            require("-DBERTH_EXPECTED=tl" in result.stdout, f"the remedy is missing:\n{result.stdout}")
        else:
            require(result.returncode == 0, f"the package was not found:\n{result.stdout}")

    def cuda_project(self):
        """The same with a real CUDA compiler; in C++20 mode a .cu file uses berth and links."""
        if shutil.which("nvcc") is None:
            print("skipped: nvcc is not on the path: the CUDA toolkit is not installed")
            sys.exit(77)
        folder = self.fresh_folder("cuda_project")
        result = attempt(*self.configure(
            "cuda_project", folder, f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_CUDA_ARCHITECTURES=75",
            f"-DCMAKE_CUDA_HOST_COMPILER={self.options.compiler}",
        ))  # fmt: skip
        if self.options.expected == "std":
            require(result.returncode != 0, "the package was found")
            require("-DBERTH_EXPECTED=tl" in result.stdout, f"the remedy is missing:\n{result.stdout}")
            return
        require(result.returncode == 0, f"the project does not configure:\n{result.stdout}")
        run("cmake", "--build", folder)
        run(folder / "consumer_cu")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario")
    for folder in ("source", "build", "stage"):
        parser.add_argument(f"--{folder}", type=pathlib.Path)
    for text in ("libdir", "generator", "compiler", "flags", "expected", "shared", "opencl", "cuda"):
        parser.add_argument(f"--{text}")
    options = parser.parse_args()
    getattr(Scenarios(options), options.scenario)()


main()
