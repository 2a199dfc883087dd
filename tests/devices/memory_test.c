/* A program that needs now few large blocks and now many small ones touches the same pages again. */
#include "devices/memory.h"

#include <stdio.h>
#include <string.h>

enum { LARGE = 16 << 20, SMALL = 1 << 20, N = 3, MANY = N * LARGE / SMALL };

static int checks, bad;
#define CHECK(x) (checks++, (x) ? 0 : (bad++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

/* Pages that the system has just given are zero. */
static int new_pages(const char *p, int64_t n) {
  int found = 0;
  for (int64_t i = 0; i < n; i += 4096) found += p[i] == 0;
  return found;
}

static void test_cut_and_joined(void) {
#ifndef __SANITIZE_ADDRESS__ /* whose blocks are not kept */
  char *large[N], *small[MANY], *again[N];
  for (int i = 0; i < N; i++) large[i] = memset(ts_memory_alloc(LARGE), 1, LARGE);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < N; i++) ts_memory_free(round ? again[i] : large[i], LARGE);
    int fresh = 0;
    for (int i = 0; i < MANY; i++) {
      small[i] = ts_memory_alloc(SMALL);
      fresh += new_pages(small[i], SMALL);
      memset(small[i], i + 1, SMALL);
    }
    CHECK(fresh <= (4 << 20) / 4096); /* which may always be cached */
    for (int i = 0; i < MANY; i++) CHECK(small[i][0] == i + 1 && small[i][SMALL - 1] == i + 1);
    for (int i = 0; i < MANY; i += 2) ts_memory_free(small[i], SMALL);
    for (int i = 1; i < MANY; i += 2) ts_memory_free(small[i], SMALL);
    fresh = 0;
    for (int i = 0; i < N; i++) {
      again[i] = ts_memory_alloc(LARGE);
      fresh += new_pages(again[i], LARGE);
      memset(again[i], 1, LARGE);
    }
    CHECK(fresh <= (4 << 20) / 4096);
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
