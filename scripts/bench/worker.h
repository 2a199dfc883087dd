/* What the two C workers of the benchmark share: the loop over commands and the
 * clock. A worker answers each line of its input with one line:
 *   about            ok TEXT                    what it is
 *   bench WORDS...   ok SECONDS                 one call of the row, after warm-up
 *   check WORDS...   ok NUMBER                  mean |result|, to compare with ours
 *   drop             ok                         gives the row's memory back
 * or with "none" (it has no such row) or "fail TEXT". */
#ifndef TESSERA_BENCH_WORKER_H
#define TESSERA_BENCH_WORKER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORKER_WORDS = 24 };

typedef struct Row {
  void (*run)(void *arg); /* one call; NULL: there is no such row */
  double (*check)(void *arg);
  void (*drop)(void *arg);
  void *arg;
  double scale; /* of the time told; 0 stands for 1 */
} Row;

/* Sets a row up from its words; the caller owns the result. */
typedef Row WorkerSetup(int nwords, char **word);

static double clock_now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double wall_now(void) { return clock_now(CLOCK_MONOTONIC); }

/* With CLOCK=cpu the time is the processor time of the process. */
static double worker_now(void) {
  const char *clock = getenv("CLOCK");
  return clock && !strcmp(clock, "cpu") ? clock_now(CLOCK_PROCESS_CPUTIME_ID) : wall_now();
}

static double worker_time(const Row *r, int n) {
  double start = worker_now();
  for (int i = 0; i < n; i++) r->run(r->arg);
  return (worker_now() - start) / n;
}

/* The calls of one turn: as many as fill 30 ms. */
static int worker_warm_up(const Row *r) {
  double start = worker_now(), once = worker_time(r, 1);
  for (int i = 0; i < 2 || worker_now() - start < 0.05; i++) {
    once = worker_time(r, 1);
    if (once > 0.5) break;
  }
  double n = 0.03 / once;
  return n < 1 ? 1 : n > 1e6 ? 1000000 : (int)n;
}

static int worker_split(char *line, char **word) {
  int n = 0;
  for (char *p = strtok(line, " \n"); p && n < WORKER_WORDS - 1; p = strtok(NULL, " \n"))
    word[n++] = p;
  word[n] = NULL;
  return n;
}

static void worker_serve(WorkerSetup *setup, bool (*other)(int nwords, char **word)) {
  static char line[4096], held[4096], copy[4096];
  char *word[WORKER_WORDS];
  Row row = {0};
  int calls = 1;
  while (fgets(line, sizeof line, stdin)) {
    strcpy(copy, line);
    int n = worker_split(copy, word);
    bool bench = n && !strcmp(word[0], "bench");
    if (bench && strcmp(line, held)) {
      if (row.run && row.drop) row.drop(row.arg);
      strcpy(held, line);
      row = setup(n - 1, word + 1);
      if (row.run) calls = worker_warm_up(&row);
    }
    if (bench && row.run) {
      if (calls > 1) worker_time(&row, calls); /* the processors come back from the pause */
      printf("ok %.9g\n", worker_time(&row, calls) * (row.scale > 0 ? row.scale : 1));
    } else if (n && !strcmp(word[0], "check") && row.run && row.check) {
      printf("ok %.9g\n", row.check(row.arg));
    } else if (n && !strcmp(word[0], "drop")) {
      if (row.run && row.drop) row.drop(row.arg);
      row = (Row){0};
      held[0] = '\0';
      printf("ok\n");
    } else if (bench || !n || !other || !other(n, word)) {
      printf("none\n");
    }
    fflush(stdout);
  }
}

#endif
