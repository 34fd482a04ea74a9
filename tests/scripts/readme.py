# SPDX-License-Identifier: MIT
"""The C++ code that README.md shows is an example that is built and run: every ```cpp block is, to the letter, a file of
examples/."""

import pathlib
import re
import sys


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    blocks = re.findall(r"```cpp\n(.*?)```", (root / "README.md").read_text(), re.S)
    examples = {path.read_text(): path.name for path in (root / "examples").glob("*.cpp")}
    if not blocks:
        print("README.md shows no C++ code")
        return 1
    unknown = [block for block in blocks if block not in examples]
    for block in unknown:
        print("not a file of examples/:\n" + block)
    return 1 if unknown else 0


sys.exit(main())
