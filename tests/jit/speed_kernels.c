/* Where the time of compiling goes, and how fast real kernels are: `speed_kernels [options]
 * file.tile ..`, each with a kernel in block form, whose symbolic sizes become 4096. No test.
 *   -n times   compilations of each, of which the median counts (9)
 *   -r         runs them as well: GB/s, inputs and results counted once
 *   -p passes  LLVM's passes in the words of opt
 *   -t target  the instruction set */
#include "devices/cpu_pool.h"
#include "devices/memory.h"
#include "ir/tile/product/product.h"
#include "jit/build/build.h"
#include "tests/jit/jit_test.h"

enum { MOST = 64, ROWS = 4096 };

typedef struct Options {
  int times, runs;
  const char *passes, *target;
} Options;

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, by_size);
  return x[n / 2];
}

static char *whole(const char *path) {
  FILE *f = fopen(path, "r");
  if (!f) return perror(path), NULL;
  char *text = calloc(1, 1 << 20);
  size_t n = text ? fread(text, 1, (1 << 20) - 1, f) : 0;
  fclose(f);
  if (text) text[n] = 0;
  return text;
}

static double wall(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int64_t bytes_of(const TsTileType *t) {
  int64_t n = ts_dtypes[t->dtype].nbytes;
  for (int i = 0; i < t->rank; i++) n *= ts_tile_dim_is(t->dim[i]) ? ROWS : t->dim[i];
  return n;
}

/* Random bits of moderate numbers; integers are small. */
static void *filled(const TsTileType *t) {
  int64_t n = bytes_of(t), count = n / ts_dtypes[t->dtype].nbytes;
  void *p = ts_memory_alloc(n); /* as the program's: in large pages */
  memset(p, 0, (size_t)n);
  for (int64_t i = 0; i < count; i++) {
    float x = (float)(rnd() % 4096) / 1024 - 2;
    if (t->dtype == TS_DT_f32) ((float *)p)[i] = x;
    if (t->dtype == TS_DT_f64) ((double *)p)[i] = x;
    if (t->dtype == TS_DT_bf16) ((uint16_t *)p)[i] = (uint16_t)(0x3f80 + rnd() % 256);
  }
  return p;
}

static void speed(const TsTile *k, const TsKernel *kernel, int runs) {
  void *arg[64];
  int64_t dim[TS_TILE_DIMS], total = 0;
  double t[101];
  TsError err;
  for (int i = 0; i < TS_TILE_DIMS; i++) dim[i] = ROWS;
  for (int i = 0; i < k->nparam; i++)
    arg[i] = filled(&k->param[i]->type), total += bytes_of(&k->param[i]->type);
  for (int i = 0; i < runs; i++) {
    double begun = wall();
    if (ts_kernel_run(kernel, arg, dim, &err)) printf("%s\n", err.message);
    t[i] = wall() - begun;
  }
  double m = median(t, runs);
  printf("  %7.3f ms %6.1f GB/s", m, (double)total / m * 1e-6);
  for (int i = 0; i < k->nparam; i++) ts_memory_free(arg[i], bytes_of(&k->param[i]->type));
}

static void measure(const char *path, const Options *o) {
  TsError err = {0};
  double explicit_ms[MOST], code_ms[MOST];
  char *text = whole(path);
  const TsTarget *t = ts_jit_target(o->target);
  TsTile *k = text ? ts_tile_parse(text, &err) : NULL, *plain = NULL;
  void *object = NULL;
  size_t n = 0;
  if (!k) printf("%s: %s\n", path, err.message), exit(1);
  for (int i = 0; i < o->times; i++) {
    ts_tile_free(plain);
    free(object);
    double begun = msec();
    if (!(plain = ts_build_explicit(k, t, false, &err))) printf("%s\n", err.message), exit(1);
    explicit_ms[i] = msec() - begun;
    begun = msec();
    if (ts_llvm_object(plain, t, o->passes, &object, &n, &err))
      printf("%s\n", err.message), exit(1);
    code_ms[i] = msec() - begun;
  }
  printf("%-12s tiles %5.2f ms, code %6.2f ms, %6zu bytes", k->name,
         median(explicit_ms, o->times), median(code_ms, o->times), n);
  TsKernel kernel = {0};
  if (ts_kernel_outline(&kernel, plain, t, &err) || ts_kernel_load(&kernel, object, n, &err))
    printf("%s\n", err.message), exit(1);
  if (o->runs) speed(plain, &kernel, o->runs);
  printf("\n");
  ts_object_unload(&kernel.object);
  free(object);
  free(text);
  ts_tile_free(plain);
  ts_tile_free(k);
}

int main(int argc, char **argv) {
  Options o = {.times = 9};
  int i = 1;
  setenv("TESSERA_CACHE", "off", 1);
  ts_cpu_set_threads(1);
  for (; i < argc && argv[i][0] == '-'; i++) {
    if (!strcmp(argv[i], "-r"))
      o.runs = 21;
    else if (!strcmp(argv[i], "-2"))
      ts_cpu_set_threads(2);
    else if (i + 1 == argc)
      return 2;
    else if (!strcmp(argv[i], "-n"))
      o.times = atoi(argv[++i]);
    else if (!strcmp(argv[i], "-p"))
      o.passes = argv[++i];
    else if (!strcmp(argv[i], "-t"))
      o.target = argv[++i];
  }
  if (o.times > MOST) o.times = MOST;
  for (; i < argc; i++) measure(argv[i], &o);
  return failed;
}
