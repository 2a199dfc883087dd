/* Kernels bound by memory as text for any type and size, and their speed on a GPU. */
#ifndef TS_TESTS_GPU_BENCH_H
#define TS_TESTS_GPU_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/jit/gpu/threads.h"

/* D: the type in memory, N: a row's length, R: rows, P: elements of a piece. The first
 * BENCH_ROWS work along rows. */
static const struct {
  const char *name, *text;
  int reads, writes; /* of the whole size */
} bench_list[] = {
    {"softmax",
     "tile @softmax(%x: D[R,N]) -> (%y: D[R,N]) {\n"
     "  for %i in 0..R parallel {\n"
     "    %l = load %x[%i, 0] : D[N]\n"
     "    %a = cast %l : f32[N]\n"
     "    %m = max %a {axis=0} : f32[]\n"
     "    %b = broadcast %m : f32[N]\n"
     "    %d = sub %a, %b : f32[N]\n"
     "    %e = exp %d : f32[N]\n"
     "    %s = sum %e {axis=0} : f32[]\n"
     "    %o = const {value=1} : f32[]\n"
     "    %r = div %o, %s : f32[]\n"
     "    %q = broadcast %r : f32[N]\n"
     "    %z = mul %e, %q : f32[N]\n"
     "    %c = cast %z : D[N]\n"
     "    store %y[%i, 0] = %c\n"
     "  }\n}\n",
     1, 1},
    {"layernorm",
     "tile @layernorm(%x: D[R,N], %w: D[N], %b: D[N]) -> (%y: D[R,N]) {\n"
     "  for %i in 0..R parallel {\n"
     "    %l = load %x[%i, 0] : D[N]\n"
     "    %lw = load %w[0] : D[N]\n"
     "    %lb = load %b[0] : D[N]\n"
     "    %a = cast %l : f32[N]\n"
     "    %cw = cast %lw : f32[N]\n"
     "    %cb = cast %lb : f32[N]\n"
     "    %n = const {value=N} : f32[]\n"
     "    %s = sum %a {axis=0} : f32[]\n"
     "    %m = div %s, %n : f32[]\n"
     "    %mb = broadcast %m : f32[N]\n"
     "    %d = sub %a, %mb : f32[N]\n"
     "    %q = mul %d, %d : f32[N]\n"
     "    %v = sum %q {axis=0} : f32[]\n"
     "    %vm = div %v, %n : f32[]\n"
     "    %eps = const {value=1e-05} : f32[]\n"
     "    %ve = add %vm, %eps : f32[]\n"
     "    %sq = sqrt %ve : f32[]\n"
     "    %o = const {value=1} : f32[]\n"
     "    %r = div %o, %sq : f32[]\n"
     "    %rb = broadcast %r : f32[N]\n"
     "    %z = mul %d, %rb : f32[N]\n"
     "    %zw = mul %z, %cw : f32[N]\n"
     "    %zb = add %zw, %cb : f32[N]\n"
     "    %c = cast %zb : D[N]\n"
     "    store %y[%i, 0] = %c\n"
     "  }\n}\n",
     1, 1},
    {"rmsnorm",
     "tile @rmsnorm(%x: D[R,N], %w: D[N]) -> (%y: D[R,N]) {\n"
     "  for %i in 0..R parallel {\n"
     "    %l = load %x[%i, 0] : D[N]\n"
     "    %lw = load %w[0] : D[N]\n"
     "    %a = cast %l : f32[N]\n"
     "    %cw = cast %lw : f32[N]\n"
     "    %n = const {value=N} : f32[]\n"
     "    %q = mul %a, %a : f32[N]\n"
     "    %v = sum %q {axis=0} : f32[]\n"
     "    %vm = div %v, %n : f32[]\n"
     "    %eps = const {value=1e-05} : f32[]\n"
     "    %ve = add %vm, %eps : f32[]\n"
     "    %sq = sqrt %ve : f32[]\n"
     "    %o = const {value=1} : f32[]\n"
     "    %r = div %o, %sq : f32[]\n"
     "    %rb = broadcast %r : f32[N]\n"
     "    %z = mul %a, %rb : f32[N]\n"
     "    %zw = mul %z, %cw : f32[N]\n"
     "    %c = cast %zw : D[N]\n"
     "    store %y[%i, 0] = %c\n"
     "  }\n}\n",
     1, 1},
    {"row sums",
     "tile @sums(%x: D[R,N]) -> (%y: f32[R], %p: i64[R]) {\n"
     "  for %i in 0..R parallel {\n"
     "    %l = load %x[%i, 0] : D[N]\n"
     "    %a = cast %l : f32[N]\n"
     "    %s = sum %a {axis=0} : f32[]\n"
     "    %g = argmax %a {axis=0} : i64[]\n"
     "    store %y[%i] = %s\n"
     "    store %p[%i] = %g\n"
     "  }\n}\n",
     1, 0},
    {"bias+gelu*y+x",
     "tile @gelu(%x: D[R,N], %b: D[N], %y: D[R,N]) -> (%z: D[R,N]) {\n"
     "  for %i in 0..R parallel {\n"
     "    for %j in 0..N step P parallel {\n"
     "      %lx = load %x[%i, %j] {edge=true} : D[P]\n"
     "      %lb = load %b[%j] {edge=true} : D[P]\n"
     "      %ly = load %y[%i, %j] {edge=true} : D[P]\n"
     "      %a = cast %lx : f32[P]\n"
     "      %c = cast %lb : f32[P]\n"
     "      %d = cast %ly : f32[P]\n"
     "      %e = add %a, %c : f32[P]\n"
     "      %g = gelu_tanh %e : f32[P]\n"
     "      %h = mul %g, %d : f32[P]\n"
     "      %r = add %h, %a : f32[P]\n"
     "      %o = cast %r : D[P]\n"
     "      store %z[%i, %j] = %o {edge=true}\n"
     "    }\n  }\n}\n",
     2, 1},
    {"mul+add",
     "tile @fma(%x: D[R,N], %y: D[R,N]) -> (%z: D[R,N]) {\n"
     "  for %i in 0..R parallel {\n"
     "    for %j in 0..N step P parallel {\n"
     "      %lx = load %x[%i, %j] {edge=true} : D[P]\n"
     "      %ly = load %y[%i, %j] {edge=true} : D[P]\n"
     "      %a = cast %lx : f32[P]\n"
     "      %d = cast %ly : f32[P]\n"
     "      %h = mul %a, %d : f32[P]\n"
     "      %r = add %h, %a : f32[P]\n"
     "      %o = cast %r : D[P]\n"
     "      store %z[%i, %j] = %o {edge=true}\n"
     "    }\n  }\n}\n",
     2, 1},
    {"column sums",
     "tile @columns(%x: D[R,N]) -> (%y: f32[N]) {\n"
     "  for %j in 0..N step 32 parallel {\n"
     "    %l = load %x[0, %j] {edge=true} : D[R,32]\n"
     "    %a = cast %l : f32[R,32]\n"
     "    %s = sum %a {axis=0} : f32[32]\n"
     "    store %y[%j] = %s {edge=true}\n"
     "  }\n}\n",
     1, 0},
    {"sum of all",
     "tile @all(%x: D[T]) -> (%y: f32[1]) {\n"
     "  %p = alloc : f32[L] @scratch\n"
     "  for %i in 0..L parallel {\n"
     "    %o = mul %i, 4096 : i64[]\n"
     "    %l = load %x[%o] {edge=true} : D[4096]\n"
     "    %a = cast %l : f32[4096]\n"
     "    %s = sum %a {axis=0} : f32[]\n"
     "    store %p[%i] = %s\n"
     "  }\n"
     "  for %i in 0..1 parallel {\n"
     "    %q = load %p[0] : f32[L]\n"
     "    %s = pairs %q {axis=0} : f32[]\n"
     "    store %y[0] = %s\n"
     "  }\n}\n",
     1, 0},
    {"transpose",
     "tile @turned(%x: D[R,N]) -> (%y: D[N,R]) {\n"
     "  for %i in 0..R step 64 parallel {\n"
     "    for %j in 0..N step 64 parallel {\n"
     "      %a = load %x[%i, %j] {edge=true} : D[64,64]\n"
     "      %b = transpose %a {perm=[1,0]} : D[64,64]\n"
     "      store %y[%j, %i] = %b {edge=true}\n"
     "    }\n  }\n}\n",
     1, 1},
    {"columns 64",
     "tile @wide_columns(%x: D[R,N]) -> (%y: f32[N]) {\n"
     "  for %j in 0..N step 64 parallel {\n"
     "    %l = load %x[0, %j] {edge=true} : D[R,64]\n"
     "    %a = cast %l : f32[R,64]\n"
     "    %s = sum %a {axis=0} : f32[64]\n"
     "    store %y[%j] = %s {edge=true}\n"
     "  }\n}\n",
     1, 0},
    {"gelu",
     "tile @only_gelu(%x: D[R,N]) -> (%z: D[R,N]) {\n"
     "  for %i in 0..R parallel {\n"
     "    for %j in 0..N step P parallel {\n"
     "      %lx = load %x[%i, %j] {edge=true} : D[P]\n"
     "      %a = cast %lx : f32[P]\n"
     "      %g = gelu_tanh %a : f32[P]\n"
     "      %o = cast %g : D[P]\n"
     "      store %z[%i, %j] = %o {edge=true}\n"
     "    }\n  }\n}\n",
     1, 1},
    {"transpose 128",
     "tile @wide(%x: D[R,N]) -> (%y: D[N,R]) {\n"
     "  for %i in 0..R step 128 parallel {\n"
     "    for %j in 0..N step 128 parallel {\n"
     "      %a = load %x[%i, %j] {edge=true} : D[128,128]\n"
     "      %b = transpose %a {perm=[1,0]} : D[128,128]\n"
     "      store %y[%j, %i] = %b {edge=true}\n"
     "    }\n  }\n}\n",
     1, 1},
};

enum {
  BENCH = sizeof bench_list / sizeof *bench_list,
  BENCH_ROWS = 4,
  BENCH_TIMES = 40,
  SETS = 3
};

static bool bench_word(const char *s) {
  return s[0] >= 'A' && s[0] <= 'Z' && !(s[1] >= 'a' && s[1] <= 'z');
}

static void bench_text(char *out, size_t size, int which, const char *dtype, int64_t rows,
                       int64_t length) {
  size_t n = 0;
  for (const char *s = bench_list[which].text; *s && n + 32 < size; s++) {
    if (!bench_word(s)) {
      out[n++] = *s;
      continue;
    }
    int64_t number = *s == 'R'   ? rows
                     : *s == 'N' ? length
                     : *s == 'T' ? rows * length
                     : *s == 'L' ? (rows * length + 4095) / 4096
                                 : (dtype[0] == 'b' ? 2048 : 1024);
    n += (size_t)(*s == 'D' ? snprintf(out + n, 32, "%s", dtype)
                            : snprintf(out + n, 32, "%lld", (long long)number));
  }
  out[n] = 0;
}

/* ---- times */
static inline int bench_order(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static inline void bench_fail(const TsError *err) {
  printf("%s\n", err->message);
  exit(1);
}

typedef int BenchStart(void *what, int set, TsError *err);

/* The median time of one start, sets of buffers in turn, by events around each. */
static inline double bench_usec(TsDevice *d, BenchStart *start, void *what) {
  TsError err = {0};
  void *event[BENCH_TIMES + 1];
  double usec[BENCH_TIMES];
  for (int i = 0; i <= BENCH_TIMES; i++)
    if (d->run->event_new(d, &event[i], &err)) bench_fail(&err);
  for (int i = 0; i < 6; i++)
    if (start(what, i % SETS, &err)) bench_fail(&err);
  d->run->event_record(d, event[0], NULL, &err);
  for (int i = 0; i < BENCH_TIMES; i++) {
    if (start(what, i % SETS, &err)) bench_fail(&err);
    d->run->event_record(d, event[i + 1], NULL, &err);
  }
  if (d->synchronize(d, &err)) bench_fail(&err);
  for (int i = 0; i < BENCH_TIMES; i++)
    d->run->event_usec(d, event[i], event[i + 1], &usec[i], &err);
  for (int i = 0; i <= BENCH_TIMES; i++) d->run->event_free(d, event[i]);
  qsort(usec, BENCH_TIMES, sizeof *usec, bench_order);
  return usec[BENCH_TIMES / 2];
}

typedef struct BenchRun {
  TsDevice *d;
  void *g;
  void *arg[SETS][16];
  int64_t nbytes;
} BenchRun;

static inline int bench_kernel(void *what, int set, TsError *err) {
  static const int64_t none[TS_TILE_DIMS];
  BenchRun *r = what;
  return ts_device_threads.run(r->g, NULL, r->arg[set], none, err);
}

/* What a copy reaches: the device's own, forwards as a kernel would. */
static const char bench_copy_text[] __attribute__((unused)) =
    "tile @copy(%x: f32[T]) -> (%y: f32[T]) {\n"
    "  for %i in 0..T step 1024 parallel {\n"
    "    %a = load %x[%i] : f32[1024]\n"
    "    store %y[%i] = %a\n"
    "  }\n}\n";

static inline int64_t bench_bytes(const TsTileType *t) {
  int64_t n = ts_dtypes[t->dtype].nbytes;
  for (int i = 0; i < t->rank; i++) n *= t->dim[i];
  return n;
}

/* About normal numbers, in f32 and bf16 alike. */
static inline const void *bench_numbers(int64_t nbytes) {
  static char *at;
  static int64_t have;
  if (nbytes <= have) return at;
  at = realloc(at, (size_t)nbytes);
  if (!at) exit(1);
  uint64_t u = 88172645463325252u;
  for (int64_t j = 0; j + 1 < nbytes; j += 2) {
    u ^= u << 13, u ^= u >> 7, u ^= u << 17;
    int sum = 0;
    for (int i = 0; i < 4; i++) sum += (int)(u >> 16 * i & 0xffff);
    float x = (float)(sum - 2 * 65535) * (1.7320508f / 65535);
    memcpy(at + j, (char *)&x + 2, 2);
  }
  have = nbytes;
  return at;
}

static inline double bench_one(TsDevice *d, const char *text, double *llvm_ms,
                               double *driver_ms, const TsGpuCode **code_out) {
  static TsGpuCode code;
  TsError err = {0};
  BenchRun r = {.d = d};
  TsTile *k = ts_tile_parse(text, &err);
  if (!k) bench_fail(&err);
  double llvm, driver;
  if (!(r.g = open_threads(d, k, &err))) bench_fail(&err);
  ts_device_threads.times(r.g, &llvm, &driver);
  *llvm_ms = llvm / 1e3, *driver_ms = driver / 1e3;
  code = *ts_device_threads_code(r.g), *code_out = &code;
  for (int s = 0; s < SETS; s++)
    for (int i = 0; i < k->nparam; i++) {
      int64_t nbytes = bench_bytes(&k->param[i]->type);
      if (!(r.arg[s][i] = d->alloc(d, nbytes, &err))) bench_fail(&err);
      if (s ? d->copy(d, r.arg[s][i], d, r.arg[0][i], nbytes, &err)
            : d->upload(d, r.arg[s][i], bench_numbers(nbytes), nbytes, &err))
        bench_fail(&err);
    }
  double usec = bench_usec(d, bench_kernel, &r);
  for (int s = 0; s < SETS; s++)
    for (int i = 0; i < k->nparam; i++)
      d->free(d, r.arg[s][i], bench_bytes(&k->param[i]->type));
  ts_device_threads.free(r.g);
  ts_tile_free(k);
  return usec;
}

static inline int bench_all(TsDevice *d, const char *word) {
  enum { SIZE = 8192 };
  char text[4000], line[200];
  const TsGpuCode *code;
  double llvm, driver;
  d->describe(d, line, sizeof line);
  printf("%s\n%-16s %-5s %9s %9s %7s  threads shared  llvm ms  driver ms\n", line, "kernel",
         "type", "usec", "GB/s", "of copy");
  for (int half = 0; half < 2; half++) {
    double per = half ? 2 : 4, size = per * SIZE * SIZE;
    {
      char *p = text;
      for (const char *s = bench_copy_text; *s; s++)
        if (*s == 'T')
          p += sprintf(p, "%lld", (long long)SIZE * SIZE / (half ? 2 : 1));
        else
          *p++ = *s;
      *p = 0;
    }
    double usec = bench_one(d, text, &llvm, &driver, &code), copy = 2 * size / usec / 1e3;
    printf("%-16s %-5s %9.1f %9.1f %7.3f\n", "copy", half ? "bf16" : "f32", usec, copy, 1.0);
    for (int i = 0; i < BENCH; i++) {
      if (*word && !strstr(bench_list[i].name, word)) continue;
      bench_text(text, sizeof text, i, half ? "bf16" : "f32", SIZE, SIZE);
      usec = bench_one(d, text, &llvm, &driver, &code);
      double rate = size * (bench_list[i].reads + bench_list[i].writes) / usec / 1e3;
      printf("%-16s %-5s %9.1f %9.1f %7.3f  %7d %6u %8.1f %10.1f\n", bench_list[i].name,
             half ? "bf16" : "f32", usec, rate, rate / copy, code->phase[0].threads,
             code->phase[0].shared, llvm, driver);
      fflush(stdout);
    }
  }
  return 0;
}

#endif
