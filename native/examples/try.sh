#!/bin/sh
# Run the commands in the heads of the examples, and README.md's for a topology, as a user types them: from the root
# of the source tree, in a shell that knows nothing of ours. The library is compiled in $BUILD. Then compare what it
# exports with what the installed headers declare.
set -eu

native=$(cd "$(dirname "$0")/.." && pwd)
command -v pkg-config >/dev/null || { echo "skip  examples (pkg-config is not installed)"; exit 0; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/home"
ln -s "$native" "$folder/native"

# type_in NAME: the commands of standard input.
type_in() {
    (cd "$folder" && env -i HOME="$folder/home" PATH="$PATH" BUILD="$BUILD" sh -e) >"$folder/log" 2>&1 ||
        { cat "$folder/log"; echo "FAIL  $1"; exit 1; }
}

for source in "$native"/examples/*.c; do
    name=$(basename "$source" .c)
    sed -n 's/^ \*   \(make\|export\|cc\|\.\/\)/\1/p' "$source" | sed "s|^\./$name\$|& >$name.out|" | type_in "$name.c"
    diff "$native/examples/$name.out" "$folder/$name.out" || { echo "FAIL  $name.c"; exit 1; }
    cc -std=c11 -Wall -Wextra -Werror -fsyntax-only -I"$folder/home/.local/include" "$source"
    echo "ok    $name.c"
done

cp "$native/examples/topology.c" "$folder/ring.c"
cp "$native/examples/topology.c" "$folder/program.c"
{
    sed -n '/^make -C native install PREFIX/,/^```$/p' "$native/README.md" | grep -v '^```$'
    echo './program >program.out'
} | type_in README.md
diff "$native/examples/topology.out" "$folder/program.out" || { echo "FAIL  README.md"; exit 1; }
test -e "$folder/ring.so"
echo "ok    README.md"

# Declarations begin at the left margin, as clang-format leaves them.
declared() { sed -n '/CFFI BEGIN/,/CFFI END/s/^[a-z][a-z0-9_ *]*\(aether_[a-z0-9_]*\)(.*/\1/p' "$1"; }

cd "$folder/home/.local"
nm -D --defined-only lib/libaether.so | awk '{print $3}' | sort >"$folder/exported"
for header in include/aether.h include/aether/*.h; do declared "$header"; done | sort >"$folder/declared"
diff "$folder/declared" "$folder/exported" || { echo "FAIL  symbols (<: declared alone, >: exported alone)"; exit 1; }
for header in include/aether.h include/aether/*.h; do
    count=$(declared "$header" | wc -l)
    [ "$count" -eq 0 ] || echo "ok    ${header#include/} ($count functions)"
done
