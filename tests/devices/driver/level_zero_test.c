/* The device layer of Intel's GPUs by Level Zero (cases.h), over a driver of the test's
 * own (fake_ze.c): of an interface that keeps order by itself, and of an older one. */
#include <sys/wait.h>
#include <unistd.h>

#include "devices/level_zero_api.h"

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
  CHECK(ts_device_find(OTHER_DEVICE, &err) && d->reach(d, ts_device_find(OTHER_DEVICE, &err)));
  fflush(stdout);
  return failures != 0;
}

int main(void) {
  int status = 0;
  pid_t old = fork();
  if (!old) _exit(test("65540"));
  waitpid(old, &status, 0);
  return test("65545") || status;
}
