/* A program that needs now few large blocks and now many small ones touches the same pages again. */
#include "devices/memory.h"

#include <stdio.h>
#include <string.h>

enum { LARGE = 16 << 20, SMALL = 1 << 20, N = 3, MANY = N * LARGE / SMALL };

static int checks, bad;
#define CHECK(x) (checks++, (x) ? 0 : (bad++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

static bool lies_in(const char *p, int64_t n, char *const *block) {
  for (int i = 0; i < N; i++)
    if (p >= block[i] && p + n <= block[i] + LARGE) return true;
  return false;
}

static void test_cut_and_joined(void) {
#ifndef __SANITIZE_ADDRESS__ /* whose blocks are not kept */
  char *large[N], *small[MANY], *again[N];
  for (int i = 0; i < N; i++) large[i] = ts_memory_alloc(LARGE);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < N; i++) ts_memory_free(round ? again[i] : large[i], LARGE);
    int inside = 0;
    for (int i = 0; i < MANY; i++) {
      small[i] = ts_memory_alloc(SMALL);
      memset(small[i], i, SMALL);
      inside += lies_in(small[i], SMALL, large);
    }
    CHECK(inside >= MANY - 5); /* a few MiB may be new without raising the peak */
    for (int i = 0; i < MANY; i++)
      CHECK(small[i][0] == (char)i && small[i][SMALL - 1] == (char)i);
    for (int i = 0; i < MANY; i += 2) ts_memory_free(small[i], SMALL);
    for (int i = 1; i < MANY; i += 2) ts_memory_free(small[i], SMALL);
    inside = 0;
    for (int i = 0; i < N; i++) {
      again[i] = ts_memory_alloc(LARGE);
      inside += lies_in(again[i], LARGE, large);
    }
    CHECK(inside == N);
  }
  for (int i = 0; i < N; i++) ts_memory_free(again[i], LARGE);
  CHECK(ts_memory_stats().live == 0);
  CHECK(ts_memory_stats().cached <= ts_memory_stats().peak + (4 << 20));
  ts_memory_trim();
  CHECK(ts_memory_stats().cached == 0);
#endif
}

int main(void) {
  test_cut_and_joined();
  printf("memory: %d checks, %d wrong\n", checks, bad);
  return bad != 0;
}
