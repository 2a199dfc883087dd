/* Arenas: what they give is aligned and holds zeros, also with a block for each; the blocks that
 * AddressSanitizer sees end where what was asked for ends. */
#include "lib/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
static int ends(const char *p, size_t n) { return __asan_address_is_poisoned(p + n); }
#else
static int ends(const char *p, size_t n) { return p && n; }
#endif

static int filled(void) {
  TsArena a = {0};
  char *list[200];
  int bad = 0;
  for (size_t i = 0; i < 200; i++) {
    size_t n = i * i % 3001 + 1;
    char *p = list[i] = ts_arena_alloc(&a, n);
    if (!p || (uintptr_t)p % 16 || !ends(p, n)) return ts_arena_free(&a), 1;
    for (size_t k = 0; k < n; k++) bad += p[k] != 0;
    memset(p, (int)i + 1, n);
  }
  for (size_t i = 0; i < 200; i++)
    for (size_t k = 0; k < i * i % 3001 + 1; k++) bad += (unsigned char)list[i][k] != i + 1;
  ts_arena_free(&a);
  return bad;
}

int main(void) {
  int bad = filled();
  ts_arena_single(true);
  bad += filled();
  if (bad) printf("%d bytes are wrong\n", bad);
  return bad != 0;
}
