/* The device layer of NVIDIA GPUs: allocator, copies, streams, events, launches. Without
 * arguments over a driver of the test's own (fake_cuda.c), whose calls also fail on demand;
 * with "real" on the first GPU of this machine, where bandwidths are printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "devices/cuda_api.h"
#include "tests/skip.h"

static int failures;
#define CHECK(x)                                                                               \
  ((x) ? (void)0                                                                               \
       : (void)(failures++, printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #x, err.message)))
static TsError err;

void fake_fail(const char *call, int after, int code);
long fake_count(const char *call);
long fake_blocks(void);
void fake_limit(long nbytes);

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(uint32_t *at, int64_t nbytes, uint32_t seed) {
  for (int64_t i = 0; i < nbytes / 4; i++) at[i] = (seed + (uint32_t)i) * 2654435761u;
}

/* Sizes around the edges of classes, slabs and chunks; what is returned is what was sent. */
static void test_round_trips(TsDevice *d) {
  static const int64_t size[] = {
      0,      4,      508,     512,     516,           4096,     262140,
      262144, 262148, 1 << 20, 8 << 20, (8 << 20) + 4, 24 << 20, (40 << 20) + 12};
  for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
    int64_t n = size[i];
    uint32_t *a = malloc((size_t)n + 4), *b = calloc(1, (size_t)n + 4);
    fill(a, n, (uint32_t)i);
    void *at = d->alloc(d, n, &err), *other = d->alloc(d, n, &err);
    CHECK(at && other && at != other);
    CHECK(!d->upload(d, at, a, n, &err));
    CHECK(!d->copy(d, other, d, at, n, &err));
    CHECK(!d->download(d, b, other, n, &err));
    CHECK(!memcmp(a, b, (size_t)n));
    fill(a, n, 77); /* the source may change as soon as upload is back */
    CHECK(!d->upload(d, at, a, n, &err));
    memset(a, 0, (size_t)n);
    CHECK(!d->download(d, b, at, n, &err));
    fill(a, n, 77);
    CHECK(!memcmp(a, b, (size_t)n));
    d->free(d, at, n);
    d->free(d, other, n);
    free(a);
    free(b);
  }
  CHECK(d->live == 0);
}

/* Random sizes live at one time: no two overlap, each keeps its mark. */
static void test_storm(TsDevice *d, int rounds) {
  enum { N = 200 };
  static struct {
    char *at;
    int64_t n;
  } b[N];
  uint32_t seed = 1, mark;
  double start = now();
  for (int r = 0; r < rounds; r++) {
    seed = seed * 1664525u + 1013904223u;
    int i = (int)(seed >> 8) % N;
    if (b[i].at) {
      CHECK(!d->download(d, &mark, b[i].at + b[i].n - 4, 4, &err) && mark == (uint32_t)i);
      d->free(d, b[i].at, b[i].n);
      b[i].at = NULL;
      continue;
    }
    b[i].n = 4 + (int64_t)(seed >> 4) % (seed & 64 ? 1 << 20 : 5000);
    b[i].at = d->alloc(d, b[i].n, &err);
    mark = (uint32_t)i;
    CHECK(b[i].at && !d->upload(d, b[i].at + b[i].n - 4, &mark, 4, &err));
    for (int k = 0; k < N; k++)
      if (k != i && b[k].at && b[i].at)
        CHECK(b[k].at + b[k].n <= b[i].at || b[i].at + b[i].n <= b[k].at);
  }
  for (int i = 0; i < N; i++)
    if (b[i].at) d->free(d, b[i].at, b[i].n), b[i].at = NULL;
  CHECK(d->live == 0);
  printf("cuda: storm of %d calls, %.1f us each\n", rounds, (now() - start) / rounds * 1e6);
}

static const char wrong_code[] = ".version 7.0\n.target sm_80\n.address_size 64\n.bad\n";
static const char triple[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry triple(.param .u64 p, .param .u32 q) {\n"
    ".reg .pred c; .reg .f32 f; .reg .b32 i, n, t, w; .reg .b64 a, o;\n"
    "ld.param.u64 a, [p]; ld.param.u32 n, [q]; cvta.to.global.u64 a, a;\n"
    "mov.u32 i, %ctaid.x; mov.u32 w, %ntid.x; mov.u32 t, %tid.x; mad.lo.s32 i, i, w, t;\n"
    "setp.ge.s32 c, i, n; @c ret;\n"
    "mul.wide.s32 o, i, 4; add.s64 a, a, o;\n"
    "ld.global.f32 f, [a]; mul.f32 f, f, 0f40400000; st.global.f32 [a], f; ret; }\n";

/* By another thread's way: after an event, with none of the device's buffers. */
static void test_fetch(TsDevice *d) {
  enum { N = 5 };
  static const int64_t size[N] = {0, 4, (8 << 20) - 4, (24 << 20) + 4, 100};
  TsFetch list[N];
  uint32_t *a[N];
  void *event = NULL;
  for (int i = 0; i < N; i++) {
    a[i] = malloc((size_t)size[i] + 4);
    fill(a[i], size[i], (uint32_t)i);
    void *at = d->alloc(d, size[i], &err);
    CHECK(at && !d->upload(d, at, a[i], size[i], &err));
    list[i] = (TsFetch){calloc(1, (size_t)size[i] + 4), at, size[i]};
  }
  CHECK(!d->run->event_new(d, &event, &err) && !d->run->event_record(d, event, NULL, &err));
  CHECK(!d->fetch(d, N, list, event, &err));
  d->run->event_free(d, event);
  for (int i = 0; i < N; i++) {
    CHECK(!memcmp(a[i], list[i].to, (size_t)size[i]));
    d->free(d, (void *)(uintptr_t)list[i].from, size[i]);
    free(list[i].to);
    free(a[i]);
  }
}

/* A kernel on a second stream between an upload and a download, ordered by events alone. */
static void test_streams(TsDevice *d) {
  enum { N = 1 << 20 };
  float *x = malloc(N * sizeof *x);
  int n = N;
  void *module = NULL, *kernel = NULL, *stream = NULL, *ready = NULL, *done = NULL;
  void *at = d->alloc(d, N * 4, &err);
  double usec = -1;
  const TsDeviceRun *r = d->run;
  for (int i = 0; i < N; i++) x[i] = (float)i;
  CHECK(!r->module_new(d, triple, strlen(triple) + 1, &module, &err));
  CHECK(!r->kernel(d, module, "triple", 64 << 10, &kernel, &err));
  CHECK(r->kernel(d, module, "absent", 0, &stream, &err) &&
        strstr(err.message, "cuLibraryGetKernel"));
  CHECK(!r->stream_new(d, &stream, &err));
  CHECK(!r->event_new(d, &ready, &err) && !r->event_new(d, &done, &err));
  CHECK(!d->upload(d, at, x, N * 4, &err));
  CHECK(!r->event_record(d, ready, NULL, &err) && !r->stream_wait(d, stream, ready, &err));
  TsLaunch l = {.kernel = kernel,
                .stream = stream,
                .grid = {N / 256, 1, 1},
                .block = {256, 1, 1},
                .args = (void *[]){&at, &n}};
  CHECK(!r->launch(d, &l, &err));
  CHECK(!r->event_record(d, done, stream, &err) && !r->stream_wait(d, NULL, done, &err));
  l.stream = NULL;
  CHECK(!r->launch(d, &l, &err));
  CHECK(!d->download(d, x, at, N * 4, &err));
  int wrong = 0;
  for (int i = 0; i < N; i++) wrong += x[i] != 3.0f * (3.0f * (float)i);
  CHECK(wrong == 0);
  CHECK(!r->event_wait(d, done, &err) && !r->event_usec(d, ready, done, &usec, &err) &&
        usec >= 0);
  l.block[0] = 4096;
  CHECK(r->launch(d, &l, &err) && strstr(err.message, "cuLaunchKernelEx: CUDA_ERROR_INVALID"));
  void *no;
  CHECK(r->module_new(d, wrong_code, strlen(wrong_code) + 1, &no, &err) &&
        strstr(err.message, "cuLibraryLoadData"));
  r->event_free(d, ready);
  r->event_free(d, done);
  r->stream_free(d, stream);
  r->module_free(d, module);
  d->free(d, at, N * 4);
  free(x);
  CHECK(!d->synchronize(d, &err));
}

/* Launches kept as one, launched twice; then one of them with another argument. */
static void test_records(TsDevice *d) {
  enum { N = 4096 };
  float x[N];
  int n = N;
  void *module = NULL, *kernel = NULL, *record = NULL;
  void *a = d->alloc(d, N * 4, &err), *b = d->alloc(d, N * 4, &err);
  const TsDeviceRun *r = d->run;
  for (int i = 0; i < N; i++) x[i] = (float)i;
  CHECK(!r->module_new(d, triple, strlen(triple) + 1, &module, &err));
  CHECK(!r->kernel(d, module, "triple", 0, &kernel, &err));
  CHECK(!d->upload(d, a, x, N * 4, &err) && !d->upload(d, b, x, N * 4, &err));
  TsLaunch l = {.kernel = kernel,
                .grid = {N / 256, 1, 1},
                .block = {256, 1, 1},
                .args = (void *[]){&a, &n}};
  CHECK(!r->record_begin(d, &err));
  CHECK(!r->launch(d, &l, &err) && !r->launch(d, &l, &err));
  CHECK(!r->record_end(d, &record, &err) && record);
  CHECK(!r->record_launch(d, record, &err) && !r->record_launch(d, record, &err));
  l.args = (void *[]){&b, &n};
  CHECK(!r->record_patch(d, record, 1, &err) && !r->launch(d, &l, &err));
  CHECK(r->launch(d, &l, &err) && strstr(err.message, "a record has no launch 2"));
  CHECK(!r->record_patch(d, NULL, 0, &err));
  CHECK(!r->record_launch(d, record, &err));
  CHECK(!d->download(d, x, a, N * 4, &err));
  CHECK(x[5] == 5 * 243.0f); /* 3^4, and once more */
  CHECK(!d->download(d, x, b, N * 4, &err));
  CHECK(x[5] == 5 * 3.0f);
  r->record_free(d, record);
  r->module_free(d, module);
  d->free(d, a, N * 4), d->free(d, b, N * 4);
}

static void test_peer(TsDevice *d) {
  TsDevice *e = ts_device_find("cuda:1", &err);
  char a[1000], b[1000] = "";
  if (!e) return;
  CHECK(!ts_device_use(e, &err));
  memset(a, 5, sizeof a);
  void *at = d->alloc(d, sizeof a, &err), *to = e->alloc(e, sizeof a, &err);
  CHECK(!d->upload(d, at, a, sizeof a, &err));
  CHECK(!e->copy(e, to, d, at, sizeof a, &err));
  CHECK(!e->download(e, b, to, sizeof a, &err) && !memcmp(a, b, sizeof a));
  d->free(d, at, sizeof a);
  e->free(e, to, sizeof a);
  e->trim(e);
}

/* ---- only with a driver that fails on demand */
static void test_open(TsDevice *d) {
  static const char *const call[] = {"cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
                                     "cuStreamCreate", "cuEventCreate"};
  CHECK(!d->opened && fake_count("cuDevicePrimaryCtxRetain") == 0 && fake_blocks() == 0);
  for (int i = 0; i < 4; i++) {
    fake_fail(call[i], 1, 1);
    CHECK(ts_device_use(d, &err) && strstr(err.message, call[i]) && !d->opened);
  }
  CHECK(!ts_device_use(d, &err) && d->opened && fake_blocks() == 0);
}

/* A few bytes have a way of their own. */
/* It runs the code of its maker's older GPUs, if that is asked for, and of nobody else's. */
static void test_target(TsDevice *d) {
  setenv("TESSERA_GPU", "sm_80", 1);
  CHECK(ts_target_of(d) == ts_target("sm_80"));
  setenv("TESSERA_GPU", "gfx942", 1);
  CHECK(ts_target_of(d) == d->target);
  unsetenv("TESSERA_GPU");
}

static void test_few_fail(TsDevice *d) {
  static const char *const call[] = {"cuMemHostAlloc", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
                                     "cuStreamSynchronize"};
  int64_t a = 77, b = 0;
  void *at = d->alloc(d, sizeof a, &err);
  for (int i = 0; i < 4; i++) {
    fake_fail(call[i], 1, 700);
    CHECK(d->upload(d, at, &a, sizeof a, &err) || d->download(d, &b, at, sizeof b, &err));
    CHECK(strstr(err.message, call[i]));
    a += i, b = 0;
    CHECK(!d->upload(d, at, &a, sizeof a, &err) && !d->download(d, &b, at, sizeof b, &err));
    CHECK(a == b);
  }
  d->free(d, at, sizeof a);
}

static void test_copies_fail(TsDevice *d) {
  static const char *const call[] = {
      "cuMemHostAlloc",    "cuEventCreate",      "cuMemcpyHtoDAsync", "cuEventRecord",
      "cuStreamWaitEvent", "cuEventSynchronize", "cuMemcpyDtoHAsync"};
  enum { N = 40 << 20 };
  char *a = malloc(N), *b = malloc(N);
  void *at = d->alloc(d, N, &err);
  memset(a, 3, N);
  for (int i = 0; i < 7; i++) {
    for (int n = 1; n < 4; n++) {
      fake_fail(call[i], n, 700);
      int bad = d->upload(d, at, a, N, &err) || d->download(d, b, at, N, &err);
      if (bad)
        CHECK(strstr(err.message, call[i]) && strstr(err.message, "ILLEGAL_ADDRESS (700)"));
      CHECK(bad || i < 2); /* buffers and their events are made once */
      fake_fail("", 0, 0);
      CHECK(!d->upload(d, at, a, N, &err) && !d->download(d, b, at, N, &err));
      CHECK(!memcmp(a, b, N));
    }
  }
  d->free(d, at, N);
  free(a);
  free(b);
}

static void test_memory_fails(TsDevice *d) {
  enum { BIG = 64 << 20 };
  void *at[5] = {0};
  d->trim(d);
  CHECK(fake_blocks() == 0);
  fake_limit(256L << 20);
  for (int i = 0; i < 4; i++) CHECK((at[i] = d->alloc(d, BIG, &err)) != NULL);
  CHECK(!d->alloc(d, BIG, &err) && err.code == TS_ERR_memory);
  CHECK(strstr(err.message, "268435456 bytes live in 4 blocks"));
  CHECK(!d->alloc(d, 4, &err) && err.code == TS_ERR_memory); /* no slab either */
  d->free(d, at[3], BIG);
  CHECK(fake_blocks() == 4); /* cached, and given back when another size needs it */
  CHECK((at[3] = d->alloc(d, BIG - 9000000, &err)) != NULL && fake_blocks() == 4);
  d->free(d, at[3], BIG - 9000000);
  for (int i = 0; i < 3; i++) d->free(d, at[i], BIG);
  long asked = fake_count("cuMemAlloc");
  for (int i = 0; i < 100; i++) d->free(d, d->alloc(d, BIG, &err), BIG);
  CHECK(fake_count("cuMemAlloc") == asked); /* none reaches the driver */
  fake_fail("cuMemAlloc", 1, 700);
  CHECK(!d->alloc(d, 3 << 20, &err) && err.code == TS_ERR_device &&
        strstr(err.hint, "restart"));
  fake_fail("cuMemAlloc", 1, 2); /* one failure is answered by giving the cache back */
  CHECK((at[0] = d->alloc(d, 3 << 20, &err)) != NULL);
  d->free(d, at[0], 3 << 20);
  d->trim(d);
  CHECK(fake_blocks() == 0 && ts_cuda_cached(d) == 0 && d->live == 0);
}

/* ---- only with a GPU */
static void test_bandwidth(TsDevice *d) {
  const int64_t n = 1 << 30;
  uint32_t *a = malloc((size_t)n), *b = malloc((size_t)n);
  double up = 1e9, down = 1e9, inside = 1e9;
  fill(a, n, 5);
  memset(b, 0, (size_t)n);
  void *at = d->alloc(d, n, &err), *to = d->alloc(d, n, &err);
  CHECK(at && to);
  for (int i = 0; i < 5 && at && to; i++) {
    double t0 = now();
    CHECK(!d->upload(d, at, a, n, &err) && !d->synchronize(d, &err));
    double t1 = now();
    CHECK(!d->copy(d, to, d, at, n, &err) && !d->synchronize(d, &err));
    double t2 = now();
    CHECK(!d->download(d, b, to, n, &err));
    double t3 = now();
    if (t1 - t0 < up) up = t1 - t0;
    if (t2 - t1 < inside) inside = t2 - t1;
    if (t3 - t2 < down) down = t3 - t2;
  }
  CHECK(!memcmp(a, b, (size_t)n));
  printf("cuda: 1 GiB to the GPU %.1f GB/s, from it %.1f GB/s, inside %.0f GB/s\n",
         (double)n / up / 1e9, (double)n / down / 1e9, (double)n / inside / 1e9);
  d->free(d, at, n);
  d->free(d, to, n);
  free(a);
  free(b);
}

static void test_all_memory(TsDevice *d) {
  enum { MOST = 400 };
  static void *at[MOST];
  const int64_t n = 1 << 30;
  int k = 0;
  while (k < MOST && (at[k] = d->alloc(d, n, &err))) k++;
  CHECK(k > 0 && k < MOST && err.code == TS_ERR_memory);
  printf("cuda: after %d GiB: %s\n", k, err.message);
  for (int i = 0; i < k; i++) d->free(d, at[i], n);
  CHECK((at[0] = d->alloc(d, 3 * n, &err)) != NULL);
  d->free(d, at[0], 3 * n);
  d->trim(d);
}

int main(int argc, char **argv) {
  bool real = argc > 1 && !strcmp(argv[1], "real");
  if (!real) setenv("TESSERA_LIBCUDA", "self", 1);
  TsDevice *d = ts_device_find("cuda:0", &err);
  if (!d) {
    if (real) return skip(err.message);
    return printf("cuda: %s\n", err.message), 1;
  }
  if (!real) test_open(d);
  CHECK(!ts_device_use(d, &err));
  char text[200];
  d->describe(d, text, sizeof text);
  printf("cuda: %s\n", text);
  if (!d->opened) return 1;
  test_target(d);
  if (!real) test_few_fail(d);
  if (!real) test_copies_fail(d);
  test_round_trips(d);
  test_fetch(d);
  test_storm(d, 5000);
  test_records(d);
  test_streams(d);
  test_peer(d);
  if (!real) test_memory_fails(d);
  if (real) test_bandwidth(d);
  if (real) test_all_memory(d);
  return failures != 0;
}
