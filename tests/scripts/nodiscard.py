"""Every function of a public header that returns a Result (or any expected) is declared [[nodiscard]].

usage: nodiscard.py INCLUDE_DIR
       nodiscard.py --self-test

Reads declarations at namespace and class scope. Exempt are members defined outside their class (the declaration
carries the attribute), functions that return a reference, and what a user cannot call: private members, and nested
classes defined outside their class, which are implementation.
"""

import pathlib
import re
import sys

COMMENTS_AND_STRINGS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
DIRECTIVES = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
SCOPE = re.compile(r"\b(namespace|class|struct|union)\b|^\s*extern\s*$")
NESTED_OUTSIDE = re.compile(r"\b(class|struct|union)\s+\w+\s*::")
ACCESS = re.compile(r"\b(public|private|protected)\s*$")
RESULT = re.compile(r"\b(?:Result|expected)\s*<")
NAME = re.compile(r"\s*((?:\w+\s*::\s*)*)(operator\s*[^\s\w(]+|operator\s*\(\s*\)|operator\s+[\w:]+|\w+)\s*\(")


def blank(match):
    """Spaces in place of the match, so that line numbers stay."""
    return re.sub(r"[^\n]", " ", match[0])


def without_groups(text):
    """The text with all that stands inside parentheses, braces or template brackets blanked, same length."""
    result = []
    depth = {"(": 0, "<": 0}
    for position, char in enumerate(text):
        inside = depth["("] > 0 or depth["<"] > 0
        if char == "(":
            depth["("] += 1
        elif char == ")":
            depth["("] -= 1
            inside = depth["("] > 0 or depth["<"] > 0
        elif char == "<" and depth["("] == 0 and not text[:position].rstrip().endswith("operator"):
            depth["<"] += 1
        elif char == ">" and depth["("] == 0 and depth["<"] > 0 and text[position - 1] != "-":
            depth["<"] -= 1
            inside = depth["<"] > 0
        result.append(" " if inside and char != "\n" else char)
    return "".join(result)


def end_of_brackets(text, start):
    """The position after the bracket that closes the one at `start`."""
    depth = 0
    for position in range(start, len(text)):
        if text[position] == "<":
            depth += 1
        elif text[position] == ">" and text[position - 1] != "-":
            depth -= 1
            if depth == 0:
                return position + 1
    return len(text)


def lacks_nodiscard(head):
    """Whether the head of a declaration is that of a function that returns a Result without [[nodiscard]]."""
    outline = without_groups(head)
    if re.match(r"\s*(using|typedef|return)\b", outline):
        return False
    if "nodiscard" in head:
        return False
    for match in RESULT.finditer(outline):
        end = end_of_brackets(head, match.end() - 1)
        if re.search(r"->\s*(?:\w+\s*::\s*)*$", outline[: match.start()]):
            trailing = not re.match(r"\s*&", head[end:]) and "=" not in outline[: match.start()]
            qualified = re.search(r"::\s*~?\w+\s*\(", outline.split("->")[0])
            if trailing and not qualified:
                return True
            continue
        name = NAME.match(head, end)
        if name and not name[1]:
            return True
    return False


def opened_scope(head):
    """What the brace after `head` opens: "public" or "private" members, or a "body", which holds no declarations."""
    outline = without_groups(head)
    scope = SCOPE.search(outline)
    if not scope or "=" in outline:
        return "body"
    if scope[1] == "class" or NESTED_OUTSIDE.search(outline):
        return "private"
    return "public"


def faults(text):
    """(line, declaration) of each function that lacks the attribute."""
    text = COMMENTS_AND_STRINGS.sub(blank, text)
    text = DIRECTIVES.sub(blank, text)
    scopes = ["public"]
    parentheses = 0
    start = 0
    for position, char in enumerate(text):
        if scopes[-1] == "body":
            if char == "{":
                scopes.append("body")
            elif char == "}":
                scopes.pop()
                start = position + 1 if parentheses == 0 else start
            continue
        if char == "(":
            parentheses += 1
        elif char == ")":
            parentheses -= 1
        elif char == "{" and parentheses > 0:
            scopes.append("body")  # a braced default argument
        elif char == ":" and (access := ACCESS.search(text[start:position])):
            scopes[-1] = "public" if access[1] == "public" else "private"
            start = position + 1
        elif char in "{;}":
            head = text[start:position]
            callable_by_users = "private" not in scopes or re.match(r"\s*friend\b", head)
            if char != "}" and callable_by_users and lacks_nodiscard(head):
                line = text.count("\n", 0, start + len(head) - len(head.lstrip())) + 1
                yield line, " ".join(head.split())
            if char == "{":
                scopes.append(opened_scope(head))
            elif char == "}":
                scopes.pop()
            start = position + 1


def check_folder(folder):
    checked = 0
    problems = []
    for path in sorted(folder.rglob("*.hpp")):
        checked += 1
        for line, declaration in faults(path.read_text(encoding="utf-8")):
            problems.append(f"{path}:{line}: not [[nodiscard]]: {declaration}")
    return checked, problems


GOOD = """
#define MAKE(x) Result<int> x();
namespace berth::inline v0 {
template <class T>
using Result = std::expected<T, Error>;
using Function = Result<int> (*)(int);
// Result<int> comment();
class [[nodiscard]] A : public B<Result<int>> {
 public:
  [[nodiscard]] Result<int> plain(std::size_t n, Spec spec = {});
  [[nodiscard]] BERTH_EXPORT static Result<std::vector<int>> exported(int n) { Result<int> x(n); return x; }
  template <class T>
    requires(sizeof(T) < 4)
  [[nodiscard]] constexpr auto trailing(T t) const -> Result<T> { return g(t); }
  explicit A(Result<int> r) : r_{std::move(r)} {}
  Result<int>& reference();
  const Result<int> member = f(3);
  Result<void> (*slot)(void*, std::size_t) = nullptr;
 private:
  Result<int> r_;
  Result<int> hidden();
  struct Nested {
    Result<int> hidden_too();
  };
};
struct A::Ops {
  Result<int> implementation();
};
template <class T>
Result<int> A<T>::outside(T t) { return t; }
template <class A>
concept C = requires(A& a) {
  { a.alloc(1) } -> std::same_as<Result<int>>;
};
inline constexpr auto lambda = [](int n) -> Result<int> { return n; };
inline void body() { Result<int> local(3); if (local) { Result<int> deeper(4); } }
}
"""

# Each declaration alone, in a class in a namespace, is a fault.
BAD = [
    "Result<int> plain();",
    "Result<std::pair<int, int>> nested(int n = 3) { return n; }",
    "BERTH_EXPORT static Result<int> exported(Spec spec = {}) noexcept;",
    "template <class T> requires(sizeof(T) < 4) Result<T> constrained(T t);",
    "template <Allocator<Buf> A> berth::Result<T> qualified(A& a);",
    "auto trailing(int n) const -> Result<int>;",
    "std::expected<void, HostPtrError> other();",
    "virtual Result<int> pure(int) = 0;",
    "friend Result<int> operator+(A, A);",
    "Result<int> operator()(int);",
    "[[gnu::cold]] Result<int> attributed();",
    "int before{}; Result<int> after();",
    "void f() { g(); } public: Result<int> after_body();",
    "private: friend Result<int> befriended(A&);",
    "private: struct Hidden { Result<int> hidden(); }; public: Result<int> again();",
]


def self_test():
    problems = [f"wrongly reported: {fault}" for _, fault in faults(GOOD)]
    for declaration in BAD:
        text = "namespace n {\nclass A {\n public:\n  " + declaration + "\n};\n}\n"
        found = [line for line, _ in faults(text)]
        if found != [4]:
            problems.append(f"reported at lines {found}, not at 4: {declaration}")
    return problems


def main():
    if sys.argv[1:] == ["--self-test"]:
        problems = self_test()
    else:
        checked, problems = check_folder(pathlib.Path(sys.argv[1]))
        if checked == 0:
            problems.append("no header found")
        print(f"{checked} headers checked")
    print("\n".join(problems))
    return 1 if problems else 0


sys.exit(main())
