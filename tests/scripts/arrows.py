"""The folders are the architecture: a file includes its own folder and the rows above it, never a row below.

usage: arrows.py PROJECT_DIR
       arrows.py --self-test

Checks include/berth/ and src/; src/tool, the program, may include everything.
"""

import pathlib
import re
import sys
import tempfile

# One row a line, top to bottom. The folders of one row are siblings and do not know each other.
ROWS = [
    ["core"],
    ["io"],
    ["adaptors"],
    ["staging"],
    ["device"],
    ["host", "disk", "opencl", "cuda"],
    ["vector"],
    ["host_ptr"],
    ["testing"],
    ["interop"],
    ["c"],
]
ROW_OF = {folder: number for number, row in enumerate(ROWS) for folder in row}

# What the umbrella header offers: nothing that needs a driver, nothing for tests.
UMBRELLA = "berth.hpp"
UMBRELLA_FOLDERS = ["core", "adaptors", "device", "host"]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def may_include(folder, included):
    return folder == included or ROW_OF[included] < ROW_OF[folder]


def included_folder(path, root, quote, target):
    """The folder of berth that an #include names; None for any other header."""
    if target.startswith("berth/"):
        parts = target.split("/")
        return parts[1] if len(parts) > 2 else "(umbrella)"
    if quote == '"':
        for base in (path.parent, root):
            found = (base / target).resolve()
            if found.is_file() and found.is_relative_to(root.resolve()):
                return found.relative_to(root.resolve()).parts[0]
    return None


def check_file(path, root):
    relative = path.relative_to(root)
    folder = relative.parts[0]
    is_umbrella = str(relative) == UMBRELLA
    if not is_umbrella and folder not in ROW_OF:
        return [f"{path}: {folder} has no row; give it one in {pathlib.Path(__file__).name}"]

    problems = []
    for quote, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
        included = included_folder(path, root, quote, target)
        if included is None:
            continue
        if included not in ROW_OF:
            problems.append(f"{path}: includes {target}, which has no row")
        elif is_umbrella and included not in UMBRELLA_FOLDERS:
            problems.append(f"{path}: the umbrella header does not offer {included}, yet includes {target}")
        elif not is_umbrella and not may_include(folder, included):
            problems.append(f"{path}: {folder} may not include {included}, yet includes {target}")
    return problems


def check_project(project):
    problems = []
    checked = 0
    for root in (project / "include" / "berth", project / "src"):
        for path in sorted(root.rglob("*")):
            if path.suffix not in (".hpp", ".h", ".cpp") or path.relative_to(root).parts[0] == "tool":
                continue
            checked += 1
            problems += check_file(path, root)
    return checked, problems


def self_test():
    """Each faulty file of a small tree is found, each good one is not."""
    good = {
        "include/berth/berth.hpp": "#include <berth/core/error.hpp>\n#include <berth/host/allocator.hpp>\n",
        "include/berth/core/error.hpp": "#include <string>\n#include <berth/core/config.hpp>\n",
        "include/berth/opencl/allocator.hpp": '#include <berth/device/device.hpp>\n#include "berth/core/error.hpp"\n',
        "include/berth/testing/laws.hpp": "#include <berth/host/allocator.hpp>\n",
        "src/core/private.hpp": "",
        "src/core/error.cpp": '#include "private.hpp"\n#include <berth/core/error.hpp>\n',
        "src/opencl/call.cpp": '#include "core/private.hpp"\n',
        "src/tool/main.cpp": "#include <berth/testing/laws.hpp>\n",
    }
    bad = {
        "include/berth/core/upward.hpp": "#include <berth/adaptors/lru.hpp>\n",
        "include/berth/core/whole.hpp": "#include <berth/berth.hpp>\n",
        "include/berth/device/spaced.hpp": '  #  include "berth/host/allocator.hpp"\n',
        "include/berth/opencl/sibling.hpp": "#include <berth/host/allocator.hpp>\n",
        "include/berth/new_folder/thing.hpp": "",
        "src/core/backend.cpp": '#include "opencl/private.hpp"\n',
        "src/host/relative.cpp": '#include "../opencl/private.hpp"\n',
    }
    helper = {"src/opencl/private.hpp": ""}
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        project = pathlib.Path(folder)
        for name, text in {**good, **bad, **helper}.items():
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        _, problems = check_project(project)
        found = [str(pathlib.Path(problem.split(":")[0]).relative_to(project)) for problem in problems]
        failures += [f"{name}: a fault was not found" for name in bad if name not in found]
        failures += [f"{name}: wrongly reported" for name in found if name not in bad]

        umbrella = project / "include/berth/berth.hpp"
        umbrella.write_text("#include <berth/opencl/allocator.hpp>\n", encoding="utf-8")
        if not any("umbrella" in problem for problem in check_project(project)[1]):
            failures.append("an umbrella header with a driver was not found")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        problems = self_test()
    else:
        checked, problems = check_project(pathlib.Path(sys.argv[1]))
        if checked == 0:
            problems.append("no file found")
        print(f"{checked} files checked")
    print("\n".join(problems))
    return 1 if problems else 0


sys.exit(main())
