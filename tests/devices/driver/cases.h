/* What holds for GPUs of every maker whose driver works like CUDA's (devices/driver/driver.h):
 * allocator, copies, streams, events, launches, over a driver of the test's own, whose calls
 * also fail on demand, or a real one. Who includes it says before what it is called: KIND,
 * OTHER_DEVICE, FIND_CALL, LOAD_CALL, what a block too large is (BLOCK_TEXT), the codes FATAL
 * and FULL, FATAL_TEXT, and has the code: triple, triple_nbytes, triple_name, triple_elements
 * and triple_threads of a block, of a kernel (float *x, int64_t n) that multiplies by three,
 * and wrong_code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "devices/aside.h"
#include "devices/driver/driver.h"

#define NAME(member) ts_driver_of(d)->name.member

static int failures;
#define CHECK(x)                                                                               \
  ((x) ? (void)0                                                                               \
       : (void)(failures++, printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #x, err.message)))
static TsError err;

void fake_fail(const char *call, int after, int code);
long fake_count(const char *call);
long fake_blocks(void);
void fake_limit(long nbytes);
const char *fake_complaint(void);

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
  printf(KIND ": storm of %d calls, %.1f us each\n", rounds, (now() - start) / rounds * 1e6);
}

/* What is asked for in the same order lies where it lay, whatever the order in which it was freed. */
static void test_again(TsDevice *d) {
  enum { N = 24 };
  char *at[N];
  for (int round = 0; round < 4; round++)
    for (int i = 0; i < N; i++) {
      int64_t n = i % 3 ? 4000 : 3 << 20;
      char *now = d->alloc(d, n, &err);
      CHECK(now && (round < 2 || now == at[i])); /* the first one asks the driver */
      at[i] = now;
      if (i < N - 1) continue;
      for (int k = 0; k < N; k++) {
        int j = (7 * k + 5 * round) % N;
        d->free(d, at[j], j % 3 ? 4000 : 3 << 20);
      }
    }
  CHECK(d->live == 0);
}

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
  int64_t n = N;
  void *module = NULL, *kernel = NULL, *stream = NULL, *ready = NULL, *done = NULL;
  void *at = d->alloc(d, N * 4, &err);
  double usec = -1;
  const TsDeviceRun *r = d->run;
  for (int i = 0; i < N; i++) x[i] = (float)i;
  CHECK(!r->module_new(d, triple, triple_nbytes, &module, &err));
  CHECK(!r->kernel(d, module, triple_name, 64 << 10, &kernel, &err));
  CHECK(r->kernel(d, module, "absent", 0, &stream, &err) && strstr(err.message, FIND_CALL));
  CHECK(!r->stream_new(d, &stream, &err));
  CHECK(!r->event_new(d, &ready, &err) && !r->event_new(d, &done, &err));
  CHECK(!d->upload(d, at, x, N * 4, &err));
  CHECK(!r->event_record(d, ready, NULL, &err) && !r->stream_wait(d, stream, ready, &err));
  TsLaunch l = {.kernel = kernel,
                .stream = stream,
                .grid = {(uint32_t)(N / triple_elements), 1, 1},
                .block = {triple_threads, 1, 1},
                .args = (void *[]){&at, &n},
                .pointers = 1,
                .words = 1};
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
  CHECK(r->launch(d, &l, &err) && strstr(err.message, BLOCK_TEXT));
  void *no;
  CHECK(r->module_new(d, wrong_code, sizeof wrong_code, &no, &err) &&
        strstr(err.message, LOAD_CALL));
  r->event_free(d, ready);
  r->event_free(d, done);
  r->stream_free(d, stream);
  r->module_free(d, module);
  d->free(d, at, N * 4);
  free(x);
  CHECK(!d->synchronize(d, &err));
}

/* A kernel in the second order between two of the first, and what it frees there: nobody gets that before
 * the orders have met. */
static void test_aside(TsDevice *d) {
  enum { N = 1 << 20 };
  float *x = malloc(N * sizeof *x);
  int64_t n = N, live = d->live;
  void *module = NULL, *kernel = NULL, *at = d->alloc(d, N * 4, &err);
  uint64_t first, second;
  const TsDeviceRun *r = d->run;
  for (int i = 0; i < N; i++) x[i] = (float)i;
  CHECK(!r->module_new(d, triple, triple_nbytes, &module, &err));
  CHECK(!r->kernel(d, module, triple_name, 64 << 10, &kernel, &err));
  TsLaunch l = {.kernel = kernel,
                .grid = {(uint32_t)(N / triple_elements), 1, 1},
                .block = {triple_threads, 1, 1},
                .args = (void *[]){&at, &n},
                .pointers = 1,
                .words = 1};
  CHECK(!d->upload(d, at, x, N * 4, &err) && !r->launch(d, &l, &err));
  CHECK(!ts_device_aside_begin(1, &d, &err));
  void *own = d->alloc(d, N * 4, &err);
  CHECK(!d->copy(d, own, d, at, N * 4, &err) && !d->copy(d, at, d, own, N * 4, &err));
  CHECK(!r->launch(d, &l, &err));
  d->free(d, own, N * 4);
  CHECK(!ts_device_aside_end(1, &d, &first, &err));
  void *other = d->alloc(d, N * 4, &err);
  CHECK(other && other != own);
  CHECK(!ts_device_aside_begin(1, &d, &err));
  CHECK(!d->upload(d, other, x, N * 4, &err)); /* in chunks, behind the section */
  CHECK(!ts_device_aside_end(1, &d, &second, &err) && second > first);
  CHECK(!ts_device_aside_rejoin(1, &d, first, &err));
  CHECK(!r->launch(d, &l, &err) && !d->download(d, x, at, N * 4, &err));
  int wrong = 0;
  for (int i = 0; i < N; i++) wrong += x[i] != 27.0f * (float)i;
  CHECK(wrong == 0);
  void *again = d->alloc(d, N * 4, &err);
  CHECK(again == own);
  CHECK(!ts_device_aside_rejoin(1, &d, second, &err));
  CHECK(!ts_device_aside_rejoin(1, &d, first, &err)); /* it was */
  CHECK(!ts_device_aside_begin(1, &d, &err));
  void *more = d->alloc(d, N * 4, &err);
  d->free(d, more, N * 4);
  CHECK(!ts_device_aside_end(1, &d, &first, &err));
  CHECK(!ts_device_aside_rejoin(1, &d, first + 5, &err)); /* a later one, of other devices */
  void *back = d->alloc(d, N * 4, &err);
  CHECK(back == more);
  d->free(d, back, N * 4);
  d->free(d, again, N * 4);
  d->free(d, other, N * 4);
  d->free(d, at, N * 4);
  r->module_free(d, module);
  free(x);
  CHECK(!d->synchronize(d, &err) && d->live == live);
}

/* Launches kept as one, launched twice; then one of them with another argument. */
static void test_records(TsDevice *d) {
  enum { N = 4096 };
  float x[N];
  int64_t n = N;
  void *module = NULL, *kernel = NULL, *record = NULL;
  void *a = d->alloc(d, N * 4, &err), *b = d->alloc(d, N * 4, &err);
  const TsDeviceRun *r = d->run;
  for (int i = 0; i < N; i++) x[i] = (float)i;
  CHECK(!r->module_new(d, triple, triple_nbytes, &module, &err));
  CHECK(!r->kernel(d, module, triple_name, 0, &kernel, &err));
  CHECK(!d->upload(d, a, x, N * 4, &err) && !d->upload(d, b, x, N * 4, &err));
  TsLaunch l = {.kernel = kernel,
                .grid = {(uint32_t)(N / triple_elements), 1, 1},
                .block = {triple_threads, 1, 1},
                .args = (void *[]){&a, &n},
                .pointers = 1,
                .words = 1};
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
  TsDevice *e = ts_device_find(OTHER_DEVICE, &err);
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
/* A few bytes have a way of their own. */
static void test_few_fail(TsDevice *d) {
  const char *const call[] = {NAME(host_alloc), NAME(copy_to), NAME(copy_from),
                              NAME(stream_wait)};
  int64_t a = 77, b = 0;
  void *at = d->alloc(d, sizeof a, &err);
  for (int i = 0; i < 4; i++) {
    fake_fail(call[i], 1, FATAL);
    CHECK(d->upload(d, at, &a, sizeof a, &err) || d->download(d, &b, at, sizeof b, &err));
    CHECK(strstr(err.message, call[i]));
    a += i, b = 0;
    CHECK(!d->upload(d, at, &a, sizeof a, &err) && !d->download(d, &b, at, sizeof b, &err));
    CHECK(a == b);
  }
  d->free(d, at, sizeof a);
}

static void test_copies_fail(TsDevice *d) {
  const char *const call[] = {NAME(host_alloc),   NAME(event_new),    NAME(copy_to),
                              NAME(event_record), NAME(stream_after), NAME(event_wait),
                              NAME(copy_from)};
  enum { N = 40 << 20 };
  char *a = malloc(N), *b = malloc(N);
  void *at = d->alloc(d, N, &err);
  memset(a, 3, N);
  for (int i = 0; i < 7; i++) {
    for (int n = 1; n < 4; n++) {
      fake_fail(call[i], n, FATAL);
      int bad = d->upload(d, at, a, N, &err) || d->download(d, b, at, N, &err);
      if (bad) CHECK(strstr(err.message, call[i]) && strstr(err.message, FATAL_TEXT));
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
  long asked = fake_count(NAME(alloc));
  for (int i = 0; i < 100; i++) d->free(d, d->alloc(d, BIG, &err), BIG);
  CHECK(fake_count(NAME(alloc)) == asked); /* none reaches the driver */
  fake_fail(NAME(alloc), 1, FATAL);
  CHECK(!d->alloc(d, 3 << 20, &err) && err.code == TS_ERR_device &&
        strstr(err.hint, "restart"));
  fake_fail(NAME(alloc), 1, FULL); /* one failure is answered by giving the cache back */
  CHECK((at[0] = d->alloc(d, 3 << 20, &err)) != NULL);
  d->free(d, at[0], 3 << 20);
  d->trim(d);
  CHECK(fake_blocks() == 0 && ts_driver_cached(d) == 0 && d->live == 0);
}

/* A program that nearly fills the GPU, with more sizes than fit side by side, soon asks no more, and
 * no two of its blocks overlap. */
static void test_cut(TsDevice *d) {
  enum { MB = 1 << 20, MOST = 24 };
  static const int64_t forward[] = {60, 40, 40, 30, 20, 10},
                       backward[] = {50, 35, 35, 25, 25, 20};
  char *at[MOST];
  long asked = 0;
  d->trim(d);
  fake_limit(256L << 20);
  for (int round = 0; round < 12; round++) {
    if (round == 6) asked = fake_count(NAME(alloc));
    for (int half = 0; half < 2; half++) {
      const int64_t *size = half ? backward : forward;
      for (int i = 0; i < 6; i++) {
        CHECK((at[i] = d->alloc(d, size[i] * MB, &err)) != NULL);
        for (int k = 0; k < i; k++)
          CHECK(at[i] + size[i] * MB <= at[k] || at[k] + size[k] * MB <= at[i]);
      }
      for (int i = 0; i < 6; i++) d->free(d, at[(5 * i + 2) % 6], size[(5 * i + 2) % 6] * MB);
    }
  }
  CHECK(fake_count(NAME(alloc)) == asked);
  CHECK(ts_driver_cached(d) <= 256 * MB && d->live == 0);
  /* All of it is one again, and a piece that lives holds only its own. */
  CHECK((at[0] = d->alloc(d, 60 * MB, &err)) && (at[1] = d->alloc(d, 50 * MB, &err)));
  for (int i = 2; i < 6; i++) CHECK((at[i] = d->alloc(d, 5 * MB, &err)) != NULL);
  d->free(d, at[0], 60 * MB), d->free(d, at[1], 50 * MB);
  CHECK((at[0] = d->alloc(d, 120 * MB, &err)) != NULL);
  d->free(d, at[0], 120 * MB);
  for (int i = 2; i < 6; i++) d->free(d, at[i], 5 * MB);
  d->trim(d);
  CHECK(fake_blocks() == 0 && ts_driver_cached(d) == 0 && d->live == 0);
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
  printf(KIND ": 1 GiB to the GPU %.1f GB/s, from it %.1f GB/s, inside %.0f GB/s\n",
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
  printf(KIND ": after %d GiB: %s\n", k, err.message);
  for (int i = 0; i < k; i++) d->free(d, at[i], n);
  CHECK((at[0] = d->alloc(d, 3 * n, &err)) != NULL);
  d->free(d, at[0], 3 * n);
  d->trim(d);
}

static void no_complaint(void) {
  const char *said = fake_complaint();
  if (said[0]) failures++, printf(KIND ": %s\n", said);
}

/* Opened by what each maker does on its own, which fails first. */
static void test_open(TsDevice *d, int n, const char *const *call) {
  CHECK(!d->opened && fake_count(call[0]) == 0 && fake_blocks() == 0);
  for (int i = 0; i < n; i++) {
    fake_fail(call[i], 1, 1);
    CHECK(ts_device_use(d, &err) && strstr(err.message, call[i]) && !d->opened);
  }
  CHECK(!ts_device_use(d, &err) && d->opened && fake_blocks() == 0);
}

/* It runs the code of its maker's other GPUs, if that is asked for, and of nobody else's. */
static void test_target(TsDevice *d, const char *own, const char *another) {
  setenv("TESSERA_GPU", own, 1);
  CHECK(ts_target_of(d) == ts_target(own));
  setenv("TESSERA_GPU", another, 1);
  CHECK(ts_target_of(d) == d->target);
  unsetenv("TESSERA_GPU");
}

static void test_all(TsDevice *d, bool real) {
  char text[200];
  CHECK(!ts_device_use(d, &err));
  d->describe(d, text, sizeof text);
  printf(KIND ": %s\n", text);
  if (!d->opened) return;
  if (!real) test_few_fail(d);
  if (!real) test_copies_fail(d);
  test_round_trips(d);
  test_fetch(d);
  test_storm(d, 5000);
  test_again(d);
  if (d->run->record_begin) test_records(d);
  test_streams(d);
  if (d->run->aside_begin) test_aside(d);
  test_peer(d);
  if (!real) test_memory_fails(d);
  if (!real) test_cut(d);
  if (!real) no_complaint();
  if (real) test_bandwidth(d);
  if (real) test_all_memory(d);
}
