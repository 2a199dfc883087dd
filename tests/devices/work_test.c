/* Work memory: alignment, what is kept and what goes back to the system, and threads that take and
 * give at the same time: nobody's block is somebody else's. */
#include "devices/work.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "devices/memory.h"

enum { MIB = 1 << 20, THREADS = 4, ROUNDS = 3000 };

static int checks, bad;
#define CHECK(x) (checks++, (x) ? 0 : (bad++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

static void test_blocks(void) {
  static const int64_t size[] = {0, 1, 63, 4095, 4096, 65535, 65536, 532480, 3 * MIB, 70 * MIB};
  for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
    char *p = ts_work_take(size[i]);
    CHECK(p && (uintptr_t)p % (size[i] < 4096 ? 64 : 4096) == 0);
    if (p) memset(p, 1, (size_t)size[i]);
    ts_work_give(p);
  }
  CHECK(!ts_work_take(-1) && !ts_work_take((int64_t)1 << 60));
  ts_work_give(NULL);
  ts_memory_fail_after(2, false);
  void *first = ts_work_take(1 * MIB);
  CHECK(first && !ts_work_take(1 * MIB));
  ts_memory_fail_after(0, false);
  ts_work_give(first);
  ts_work_trim();
  CHECK(ts_work_kept() == 0);
}

static void test_kept(void) {
#ifndef __SANITIZE_ADDRESS__ /* whose blocks are not kept */
  void *a = ts_work_take(5 * MIB);
  ts_work_give(a);
  CHECK(ts_work_kept() == 5 * MIB);
  CHECK(ts_work_take(5 * MIB - 100) == a); /* a smaller one, */
  ts_work_give(a);
  void *small = ts_work_take(1 * MIB); /* but not a much smaller one */
  CHECK(small != a);
  ts_work_give(small);
  void *large = ts_work_take(60 * MIB);
  ts_work_give(large);
  CHECK(ts_work_kept() <= 64 * MIB && ts_work_take(60 * MIB) == large);
  ts_work_give(large);
  ts_work_give(ts_work_take(65 * MIB)); /* too large, and nothing leaves for it */
  CHECK(ts_work_kept() >= 60 * MIB);
  void *many[40];
  for (int i = 0; i < 40; i++) many[i] = ts_work_take(8192);
  for (int i = 0; i < 40; i++) ts_work_give(many[i]);
  CHECK(ts_work_kept() <= 64 * MIB);
  ts_work_trim();
  CHECK(ts_work_kept() == 0);
#endif
}

/* Fills its blocks with its name and finds it there when it gives them back. */
static void *take_and_give(void *name) {
  uint32_t seed = 7 + (uint32_t)(uintptr_t)name;
  char *held[4] = {NULL};
  int64_t size[4] = {0}, wrong = 0;
  for (int i = 0; i < ROUNDS; i++) {
    seed = seed * 1664525 + 1013904223;
    int k = (int)(seed >> 30);
    for (int64_t at = 0; held[k] && at < size[k]; at += 512)
      wrong += held[k][at] != (char)(uintptr_t)name;
    ts_work_give(held[k]);
    size[k] = (int64_t)1 << (seed >> 16) % 19;
    if ((held[k] = ts_work_take(size[k])))
      memset(held[k], (int)(uintptr_t)name, (size_t)size[k]);
    else
      wrong++;
  }
  for (int k = 0; k < 4; k++) ts_work_give(held[k]);
  return (void *)(uintptr_t)wrong;
}

static void test_threads(void) {
  pthread_t thread[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK(!pthread_create(&thread[i], NULL, take_and_give, (void *)(i + 1)));
  for (int i = 0; i < THREADS; i++) {
    void *wrong = NULL;
    pthread_join(thread[i], &wrong);
    CHECK(!wrong);
  }
}

int main(void) {
  test_blocks();
  test_kept();
  test_threads();
  printf("work memory: %d checks, %d wrong\n", checks, bad);
  return bad != 0;
}
