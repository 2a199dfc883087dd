/* Targets of several makers side by side in one process: threads that each compile for another target,
 * all at once, make the objects that each makes alone in a process of its own. "times [n]": what
 * the first object of a process takes for each target, and one more, in processor time: the median
 * of n processes, in milliseconds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jit/compile/llvm.h"
#include "jit/gpu/gpu.h"
#include "tests/jit/gpu/families.h"

enum { FAMILIES = sizeof families / sizeof *families, EACH = 4, TARGETS = 32 };

static uint64_t mixed(uint64_t h, const void *data, size_t n) {
  for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)data)[i]) * 1099511628211u;
  return h;
}

/* Of some kernels' code; 0: there is none. */
static uint64_t objects(const TsTarget *t, int first, int n) {
  uint64_t h = 14695981039346656037u;
  for (int i = 0; i < n; i++) {
    TsError err = {0};
    TsGpuCode code;
    TsTile *k = ts_tile_parse(families[(first + i) % FAMILIES], &err);
    if (!k || ts_gpu_code(k, t, TS_GPU_aligned, &code, &err)) {
      bool cannot = strstr(err.message, "has no SPIR-V") || strstr(err.message, "has no f64");
      if (!cannot) printf("%s: %s\n", t->name, err.message);
      ts_tile_free(k);
      if (!cannot) return 0;
      continue;
    }
    h = mixed(h, code.image, code.size);
    ts_gpu_code_free(&code), ts_tile_free(k);
  }
  return h;
}

static int targets(const TsTarget **list) {
  const TsTarget *t;
  int n = 0;
  for (int i = 0; (t = ts_target_at(i)) && n < TARGETS; i++)
    if (ts_target_gpu(t)) list[n++] = t;
  return n;
}

/* ---- alone: what a process of its own says */
typedef struct Said {
  uint64_t hash;
  double first, next; /* milliseconds */
} Said;

static double processor_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static Said alone(const TsTarget *t, int first, int n) {
  Said said = {0};
  int pipes[2];
  if (pipe(pipes)) return said;
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    double begun = processor_ms();
    said.hash = objects(t, first, n);
    said.first = processor_ms() - begun;
    begun = processor_ms();
    objects(t, first, n);
    said.next = processor_ms() - begun;
    fflush(stdout);
    _exit(write(pipes[1], &said, sizeof said) != sizeof said);
  }
  close(pipes[1]);
  if (read(pipes[0], &said, sizeof said) != sizeof said) said = (Said){0};
  close(pipes[0]);
  waitpid(child, NULL, 0);
  return said;
}

/* ---- side by side */
typedef struct Worker {
  const TsTarget *t;
  int first;
  uint64_t hash;
  pthread_t thread;
} Worker;

static void *work(void *of) {
  Worker *w = of;
  w->hash = objects(w->t, w->first, EACH);
  return NULL;
}

static int together(const TsTarget **t, int n, const Said *said) {
  Worker w[TARGETS];
  int failed = 0;
  for (int i = 0; i < n; i++) {
    w[i] = (Worker){.t = t[i], .first = i * EACH};
    pthread_create(&w[i].thread, NULL, work, &w[i]);
  }
  for (int i = 0; i < n; i++) {
    pthread_join(w[i].thread, NULL);
    if (w[i].hash && w[i].hash == said[i].hash) continue;
    failed++, printf("%s: other objects beside others than alone\n", t[i]->name);
  }
  return failed;
}

static int by_size(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static void times(const TsTarget **t, int n, int runs) {
  enum { MOST = 99 };
  static const char *const what[] = {"a map", "a softmax"};
  double first[MOST], next[MOST];
  runs = runs < 1 ? 1 : runs > MOST ? MOST : runs;
  printf("| target | kernel | first object of a process, ms | again, ms |\n| --- | --- | --- | "
         "--- |\n");
  for (int i = 0; i < n; i++)
    for (int k = 0; k < 2; k++) {
      for (int r = 0; r < runs; r++) {
        Said said = alone(t[i], k ? 1 : 0, 1);
        first[r] = said.first, next[r] = said.next;
      }
      qsort(first, (size_t)runs, sizeof *first, by_size);
      qsort(next, (size_t)runs, sizeof *next, by_size);
      printf("| %s | %s | %.0f | %.0f |\n", t[i]->name, what[k], first[runs / 2],
             next[runs / 2]);
    }
}

int main(int argc, char **argv) {
  const TsTarget *list[TARGETS];
  Said said[TARGETS];
  if (!ts_llvm_present()) return printf("skipped: no LLVM\n"), 0;
  int n = targets(list), failed = 0;
  if (argc > 1 && !strcmp(argv[1], "times"))
    return times(list, n, argc > 2 ? atoi(argv[2]) : 5), 0;
  for (int i = 0; i < n; i++) said[i] = alone(list[i], i * EACH, EACH);
  for (int again = 0; again < 2; again++) failed += together(list, n, said);
  printf("%d targets, %d failed\n", n, failed);
  return failed > 0;
}
