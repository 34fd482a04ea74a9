#!/bin/sh
# Fetches Intel's OpenCL driver for CPUs from PyPI, for tests, into a folder of its own; nothing is installed.
#
# usage: sh cmake/intel-opencl.sh <folder>    writes <folder>/vendors/intel.icd, for OCL_ICD_VENDORS
set -eu

folder=${1:?usage: sh cmake/intel-opencl.sh <folder>}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
[ ! -f "$folder/vendors/intel.icd" ] || exit 0

timeout 300 python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$folder/wheels" \
  intel-opencl-rt intel-cmplr-lib-rt tbb tcmlib
python3 - "$folder" << 'end'
import os, pathlib, shutil, sys, zipfile

folder = pathlib.Path(sys.argv[1])
(folder / "lib").mkdir(exist_ok=True)
copies = {}  # a wheel holds a library once for each of its names
for wheel in (folder / "wheels").glob("*.whl"):
    with zipfile.ZipFile(wheel) as files:
        for member in files.infolist():
            path = pathlib.PurePath(member.filename)
            if path.parent.name != "lib" or path.name.startswith("libOpenCL."):
                continue
            copy = folder / "lib" / path.name
            first = copies.setdefault((member.CRC, member.file_size), copy)
            if first != copy:
                os.link(first, copy)
                continue
            with files.open(member) as source, open(copy, "wb") as target:
                shutil.copyfileobj(source, target)
shutil.rmtree(folder / "wheels")
(folder / "vendors").mkdir(exist_ok=True)
(folder / "vendors" / "intel.icd").write_text(f"{folder / 'lib' / 'libintelocl.so'}\n")
end
