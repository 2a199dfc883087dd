/* What a process compiles to have the compiler at hand (jit/build/warm.c) can be compiled for every
 * processor that there is code for. */
#include <stdio.h>

#include "jit/compile/llvm.h"
#include "jit/build/warm.h"
#include "tests/skip.h"

int main(void) {
  static const char *const name[] = {"avx512", "avx2", "base"};
  int failed = 0;
  if (!ts_llvm_present()) return skip("no LLVM");
  for (int i = 0; i < 3; i++) {
    const TsTarget *t = ts_jit_target(name[i]);
    TsError err = {0};
    if (!t || !ts_warm_compile(t, &err)) continue;
    failed++;
    printf("%s: %s\n", name[i], err.message);
  }
  return failed > 0;
}
