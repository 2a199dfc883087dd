#!/bin/sh
# Writes a C file that holds Lua modules as strings: embed.sh JIT_FOLDER file.lua...
# lib/lua/nn.lua becomes the module tessera.nn, lib/lua/init.lua tessera itself,
# and JIT_FOLDER/v.lua jit.v.
set -eu
jit=$1
shift

cat <<'HEAD'
/* Made by scripts/embed.sh from the Lua library. */
#include "repl/embed.h"

HEAD

n=0
rows=
add() { # module, file
  printf '__asm__(".section .rodata\\n.global ts_embed_%d\\nts_embed_%d:\\n.incbin \\"%s\\"\\n"\n' "$n" "$n" "$2"
  printf '        ".global ts_embed_end_%d\\nts_embed_end_%d:\\n.byte 0\\n.previous\\n");\n' "$n" "$n"
  printf 'extern const char ts_embed_%d[], ts_embed_end_%d[];\n' "$n" "$n"
  rows="$rows    {\"$1\", ts_embed_$n, ts_embed_end_$n},
"
  n=$((n + 1))
}

for f in "$@"; do
  m=$(echo "$f" | sed -e 's,^lib/lua/,,' -e 's,\.lua$,,' -e 's,/,.,g')
  case $m in
    init) add tessera "$f" ;;
    *) add "tessera.$m" "$f" ;;
  esac
done
if [ -n "$jit" ]; then
  for f in "$jit"/*.lua; do
    [ -e "$f" ] && add "jit.$(basename "$f" .lua)" "$f"
  done
fi

printf '\nconst TsEmbedded ts_embedded[] = {\n%s    {0, 0, 0},\n};\n' "$rows"
