/* The device layer of Intel's GPUs by Level Zero (cases.h), over a driver of the test's
 * own (fake_ze.c): of an interface that keeps order by itself, and of an older one. */
#include <sys/wait.h>
#include <unistd.h>

#include "devices/driver/level_zero_api.h"

#define KIND         "level_zero"
#define OTHER_DEVICE "level_zero:1"
#define FIND_CALL    "zeKernelCreate"
#define BLOCK_TEXT   "zeKernelSetGroupSize: ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION"
#define LOAD_CALL    "zeModuleCreate"
#define FATAL_TEXT   "ZE_RESULT_ERROR_DEVICE_LOST (0x70000001)"
enum { FATAL = ZE_DEVICE_LOST, FULL = ZE_OUT_OF_DEVICE_MEMORY };

static const uint32_t triple[5] = {0x07230203};
static const char wrong_code[64] = "no SPIR-V", triple_name[] = "triple";
static const size_t triple_nbytes = sizeof triple;
enum { triple_elements = 256, triple_threads = 256 };

#include "tests/devices/driver/cases.h"
#include "tests/devices/driver/fake_ze.h"

static void test_log(TsDevice *d) {
  void *module = NULL;
  CHECK(d->run->module_new(d, wrong_code, sizeof wrong_code, &module, &err));
  CHECK(strstr(err.message, "MODULE_BUILD_FAILURE") && strstr(err.message, "error: no SPIR-V"));
}

/* More records of an event than it has turns, while another stream waits for each. */
static void test_turns(TsDevice *d) {
  const TsDeviceRun *r = d->run;
  void *event = NULL, *stream = NULL;
  CHECK(!r->event_new(d, &event, &err) && !r->stream_new(d, &stream, &err));
  CHECK(!r->event_wait(d, event, &err) && !r->stream_wait(d, stream, event, &err));
  for (int i = 0; i < 100; i++) {
    CHECK(!r->event_record(d, event, NULL, &err));
    if (i % 3) CHECK(!r->stream_wait(d, stream, event, &err));
    if (i % 5 == 0) CHECK(!r->event_wait(d, event, &err));
  }
  r->event_free(d, event);
  r->stream_free(d, stream);
  no_complaint();
}

/* What another thread has queued is waited for, too. */
static void *copy_elsewhere(void *device) {
  TsDevice *d = device;
  TsError e;
  void *stream = NULL;
  if (d->run->stream_new(d, &stream, &e)) return NULL;
  void *event = NULL;
  if (!d->run->event_new(d, &event, &e) && !d->run->event_record(d, event, stream, &e))
    d->run->event_free(d, event);
  return stream;
}

static void test_threads(TsDevice *d) {
  pthread_t other;
  void *stream = NULL;
  CHECK(!pthread_create(&other, NULL, copy_elsewhere, d) && !pthread_join(other, &stream));
  CHECK(stream && fake_busy() > 0);
  CHECK(!d->synchronize(d, &err) && fake_busy() == 0);
  d->run->stream_free(d, stream);
  no_complaint();
}

/* Two that do not see each other's memory. */
static void test_apart(TsDevice *d) {
  TsDevice *e = ts_device_find(OTHER_DEVICE, &err);
  const int64_t n = (20 << 20) + 4;
  char *a = malloc((size_t)n), *b = calloc(1, (size_t)n);
  fake_apart(1);
  CHECK(e && !ts_device_use(e, &err) && !e->reach(e, d));
  fill((uint32_t *)a, n, 3);
  void *from = d->alloc(d, n, &err), *to = e->alloc(e, n, &err);
  CHECK(!d->upload(d, from, a, n, &err) && !e->copy(e, to, d, from, n, &err));
  CHECK(!e->download(e, b, to, n, &err) && !memcmp(a, b, (size_t)n));
  fake_fail("zeMemAllocHost", 1, FATAL);
  d->free(d, from, n), e->free(e, to, n);
  fake_fail("", 0, 0);
  fake_apart(0);
  CHECK(e->reach(e, d));
  free(a), free(b);
  no_complaint();
}

/* Launches of a record wait for one another where that was said. */
static void test_order(TsDevice *d) {
  const TsDeviceRun *r = d->run;
  enum { N = 256 };
  float x[N], y[2][N];
  int64_t n = N;
  void *module = NULL, *kernel = NULL, *record = NULL, *at[2];
  for (int i = 0; i < N; i++) x[i] = (float)i;
  CHECK(!r->module_new(d, triple, triple_nbytes, &module, &err) &&
        !r->kernel(d, module, triple_name, 0, &kernel, &err) && !r->record_begin(d, &err));
  for (int i = 0; i < 2; i++) {
    at[i] = d->alloc(d, sizeof x, &err);
    CHECK(!d->upload(d, at[i], x, sizeof x, &err));
  }
  for (int i = 0; i < 4;
       i++) { /* 2 comes behind 0, 3 behind 1: one barrier, and the last one */
    TsLaunch l = {.kernel = kernel,
                  .grid = {1, 1, 1},
                  .block = {N, 1, 1},
                  .args = (void *[]){&at[i % 2], &n},
                  .pointers = 1,
                  .words = 1};
    CHECK(!r->record_after(d, i > 1, (int[]){i - 2}, &err) && !r->launch(d, &l, &err));
  }
  CHECK(!r->record_end(d, &record, &err));
  for (int i = 0; i < 3; i++) CHECK(!r->record_launch(d, record, &err) && fake_barriers() == 2);
  for (int i = 0; i < 2; i++) {
    CHECK(!d->download(d, y[i], at[i], sizeof x, &err) && y[i][7] == 7 * 729.0f);
    d->free(d, at[i], sizeof x);
  }
  r->record_free(d, record);
  r->module_free(d, module);
  no_complaint();
}

/* All that is queued, once; the first failure ends it. */
static int scenario(TsDevice *d, TsError *e) {
  const TsDeviceRun *r = d->run;
  enum { N = 1024 };
  static float x[N], big[1 << 20];
  int64_t n = N;
  void *module = NULL, *kernel = NULL, *record = NULL, *stream = NULL, *event = NULL;
  d->trim(d);
  void *at = d->alloc(d, sizeof x, e), *more = at ? d->alloc(d, sizeof big, e) : NULL;
  int bad = !at || !more || d->upload(d, at, x, sizeof x, e) ||
            d->upload(d, more, big, sizeof big, e) || d->copy(d, more, d, at, sizeof x, e) ||
            r->module_new(d, triple, triple_nbytes, &module, e) ||
            r->kernel(d, module, triple_name, 0, &kernel, e) || r->stream_new(d, &stream, e) ||
            r->event_new(d, &event, e) || r->event_record(d, event, NULL, e) ||
            r->stream_wait(d, stream, event, e);
  TsLaunch l = {.kernel = kernel,
                .grid = {1, 1, 1},
                .block = {256, 1, 1},
                .args = (void *[]){&at, &n},
                .pointers = 1,
                .words = 1};
  bad = bad || r->launch(d, &l, e) || r->record_begin(d, e);
  if (!bad) {
    bad = r->launch(d, &l, e);
    bad |= r->record_end(d, &record, bad ? &(TsError){0} : e);
  }
  for (int i = 0; i < 3 && !bad; i++) {
    bad = r->record_launch(d, record, e);
    if (bad || i != 1) continue;
    l.args[0] = &more;
    bad = r->record_patch(d, record, 0, e);
    if (!bad) bad = r->launch(d, &l, e);
    r->record_patch(d, NULL, 0, &(TsError){0});
  }
  bad = bad || d->download(d, x, at, sizeof x, e) || d->synchronize(d, e);
  if (record) r->record_free(d, record);
  r->event_free(d, event), r->stream_free(d, stream);
  if (module) r->module_free(d, module);
  if (at) d->free(d, at, sizeof x);
  if (more) d->free(d, more, sizeof big);
  return bad;
}

/* Each call that can fail does, the first to the third time that it is made; the error names it,
 * and afterwards all works. */
static void test_each_call(TsDevice *d) {
  static const char *const call[] = {
#define CALL(name, args) #name,
      TS_ZE_CALLS(CALL)
#undef CALL
  };
  int told = 0;
  for (size_t i = 0; i < sizeof call / sizeof *call; i++)
    for (int k = 1; k < 4; k++) {
      err = (TsError){0};
      fake_fail(call[i], k, 0x7ffffffe);
      int bad = scenario(d, &err);
      fake_fail("", 0, 0);
      fake_complaint(); /* of what could not be given back */
      if (bad) told++;
      if (bad && !strstr(err.message, call[i])) printf("  at %s, time %d\n", call[i], k);
      CHECK(!bad || strstr(err.message, call[i]));
      CHECK(!scenario(d, &err));
      no_complaint();
    }
  CHECK(told > 30);
}

static int test(const char *version) {
  static const char *const opens[] = {"zeCommandListCreateImmediate", "zeEventPoolCreate",
                                      "zeEventCreate"};
  setenv("FAKE_ZE_VERSION", version, 1);
  setenv("TESSERA_LIBZE", "self", 1);
  TsDevice *d = ts_device_find("level_zero:0", &err);
  if (!d) return printf("level_zero: %s\n", err.message), 1;
  CHECK(d->target == ts_target("pvc"));
  test_open(d, 3, opens);
  test_target(d, "dg2", "sm_80");
  test_all(d, false);
  test_log(d);
  test_turns(d);
  test_threads(d);
  test_apart(d);
  test_order(d);
  test_each_call(d);
  CHECK(ts_device_find(OTHER_DEVICE, &err) && d->reach(d, ts_device_find(OTHER_DEVICE, &err)));
  fflush(stdout);
  return failures != 0;
}

/* Which code a device is given, by what its driver says of its matrix unit and takes. */
static int test_matrix(const char *matrix, const char *f64, const char *row) {
  setenv("FAKE_ZE_MATRIX", matrix, 1);
  setenv("TESSERA_LIBZE", "self", 1);
  if (f64) setenv("FAKE_ZE_FP64", f64, 1);
  TsDevice *d = ts_device_find("level_zero:0", &err);
  if (!d) return printf("level_zero: %s\n", err.message), 1;
  if (d->target != ts_target(row)) printf("%s: code of %s\n", matrix, d->target->name);
  CHECK(d->target == ts_target(row) && !ts_device_use(d, &err));
  no_complaint();
  fflush(stdout);
  return failures != 0;
}

static int matrices(void) {
  static const struct {
    const char *matrix, *f64, *row;
  } has[] = {{"dpas", NULL, "cooperative"},
             {"few", NULL, "dg2"},
             {"none", NULL, "dg2"},
             {"dpas", "yes", "pvc"},
             {"none", "yes", "spirv"}};
  int bad = 0, status = 0;
  for (size_t i = 0; i < sizeof has / sizeof *has; i++) {
    pid_t one = fork();
    if (!one) _exit(test_matrix(has[i].matrix, has[i].f64, has[i].row));
    waitpid(one, &status, 0);
    bad |= status;
  }
  return bad;
}

int main(void) {
  int status = 0, bad = matrices();
  pid_t old = fork();
  if (!old) _exit(test("65540"));
  waitpid(old, &status, 0);
  return test("65545") || status || bad;
}
