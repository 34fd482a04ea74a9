"""A file must not compile, for the reason it states; its mended form must.

usage: compile_fail.py FILE -- COMPILER FLAG...

The first line of FILE is `// expect: REGEX`. The test passes when compiling FILE fails and the compiler's text
matches REGEX, and FILE compiles with -DBERTH_COMPILE_FAIL_CONTROL.
"""

import re
import subprocess
import sys


def compile_file(compiler, file, *flags):
    command = [*compiler, "-fsyntax-only", "-Werror=unused-result", "-Werror=unused-value", *flags, file]
    return subprocess.run(command, capture_output=True, text=True)


def main():
    file, separator, *compiler = sys.argv[1:]
    assert separator == "--" and compiler
    with open(file, encoding="utf-8") as source:
        expectation = re.match(r"// expect: (.+)$", source.readline().rstrip())
    if not expectation:
        return f"{file}: the first line is not `// expect: REGEX`"

    control = compile_file(compiler, file, "-DBERTH_COMPILE_FAIL_CONTROL")
    if control.returncode != 0:
        return f"{file}: the mended form does not compile:\n{control.stderr}"

    faulty = compile_file(compiler, file)
    if faulty.returncode == 0:
        return f"{file}: compiles, but must not"
    if not re.search(expectation[1], faulty.stderr):
        return f"{file}: fails without a message that matches '{expectation[1]}':\n{faulty.stderr}"
    return None


sys.exit(main())
