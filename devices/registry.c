/* The list of devices. */
#include <pthread.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "devices/backends.h"
#include "lib/mesh.h"
#include "lib/text.h"
#include "lib/activity.h"

static TsDevice device[TS_MAX_DEVICES + 1]; /* behind all: TS_DEVICE_AWAY */
static int count;

static TsDevice *add(const char *kind, int number, void (*fill)(TsDevice *)) {
  TsDevice *d = &device[count];
  memset(d, 0, sizeof *d);
  d->kind = kind;
  d->index = count++;
  snprintf(d->name, sizeof d->name, "%s:%d", kind, number);
  fill(d);
  return d;
}

static void start(void) {
  if (count) return;
  add("cpu", 0, ts_cpu_device);
  add("null", 0, ts_null_device);
}

/* Those of makers' drivers, in the order in which they stand on the list. Asking a driver takes
 * a tenth of a second, so that nobody pays who does not ask. */
static struct {
  const char *kind;
  int (*count)(const char **why);
  void (*fill)(TsDevice *);
  /* On no list before one is named: all of a machine's makers' libraries are loaded to find
   * them, and what they are has names of its own, or is the CPU. */
  bool only_named;
  bool asked;
  const char *none; /* why there are none, or not all */
  char some[96];    /* room for the latter */
} driver[] = {
    {.kind = "cuda", .count = ts_cuda_count, .fill = ts_cuda_device},
    {.kind = "hip", .count = ts_hip_count, .fill = ts_hip_device},
    {.kind = "level_zero", .count = ts_level_zero_count, .fill = ts_level_zero_device},
    {.kind = "opencl", .count = ts_opencl_count, .fill = ts_opencl_device, .only_named = true},
};
enum { NDRIVER = sizeof driver / sizeof *driver };

static void probe(int k) {
  if (driver[k].asked) return;
  driver[k].asked = true;
  int n = driver[k].count(&driver[k].none), made = 0;
  while (made < n && count < TS_DEVICE_MESH) add(driver[k].kind, made++, driver[k].fill);
  if (made == n) return;
  char *text = driver[k].some;
  snprintf(text, sizeof driver[k].some,
           "%d GPUs are here, of which this process has %d: %d devices are the most of one", n,
           made, TS_DEVICE_MESH);
  driver[k].none = text;
}

static void probe_all(void) {
  for (int k = 0; k < NDRIVER; k++)
    if (!driver[k].only_named) probe(k);
}

/* Two of them, for tests, on no list before one is named; a higher number makes more. */
enum { MOST_SIMULATED = 8 };
static void simulate(const char *name) {
  static int made;
  if (strncmp(name, "sim:", 4) || !isdigit((unsigned char)name[4]) || name[5]) return;
  int want = name[4] - '0' + 1;
  if (want < 2) want = 2;
  if (want > MOST_SIMULATED || count + want - made > TS_DEVICE_MESH) return;
  while (made < want) add("sim", made++, ts_sim_device);
}

int ts_device_count(void) {
  start();
  probe_all();
  return count;
}

const char *ts_device_missing(int i, const char **why) {
  int k = 0;
  while (k < NDRIVER && (!driver[k].none || i--)) k++;
  *why = k < NDRIVER ? driver[k].none : NULL;
  return k < NDRIVER ? driver[k].kind : NULL;
}

/* Threads that compile kernels open devices, too: the first one does, others wait for it. */
static int open_once(TsDevice *d, TsError *err) {
  if (d->opened) return 0;
  TsActivity *a = d->open ? ts_activity_begin(TS_ACTIVITY_open, d->name, NULL) : NULL;
  int failed = d->open ? d->open(d, err) : 0;
  ts_activity_end(a, 0, 0);
  if (failed) return -1;
  __atomic_store_n(&d->opened, true, __ATOMIC_RELEASE);
  return 0;
}

int ts_device_use(TsDevice *d, TsError *err) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  if (__atomic_load_n(&d->opened, __ATOMIC_ACQUIRE)) return 0;
  pthread_mutex_lock(&lock);
  int failed = open_once(d, err);
  pthread_mutex_unlock(&lock);
  return failed;
}

int ts_device_full(TsDevice *d, int64_t nbytes, TsError *err) {
  return ts_error_set(err, TS_ERR_memory,
                      "out of memory: %s has no room for %lld bytes, %lld live", d->name,
                      (long long)nbytes, (long long)d->live);
}

TsDevice *ts_device_at(int index) {
  start();
  return &device[index];
}

const TsTarget *ts_target_of(const TsDevice *d) {
  const char *name = ts_target_gpu(d->target) ? getenv("TESSERA_GPU") : NULL;
  const TsTarget *t = name && *name ? ts_target(name) : NULL;
  bool runs = ts_target_gpu(t) && (t->maker == d->target->maker || d->simulated);
  return runs ? t : d->target;
}

static TsDevice *by_name(const char *name) {
  for (int i = 0; i < count; i++)
    if (!strcmp(device[i].name, name)) return &device[i];
  return NULL;
}

/* ---- what is said of a name that no device has */
static const char *const simulated[] = {"sim:0", "sim:1"};

/* Those of the list, and behind them the simulated ones that could be named. */
static const char *nth_name(const void *arg, int i) {
  (void)arg;
  return i < count ? device[i].name : simulated[i - count];
}

static bool is_kind(const char *name, const char *kind) {
  size_t n = strlen(kind);
  return !strncasecmp(name, kind, n) && (!name[n] || name[n] == ':');
}

/* The first GPU that there is; without any what one is called usually. */
static const char *some_gpu(void) {
  for (int i = 0; i < count; i++)
    for (int k = 0; k < NDRIVER; k++)
      if (device[i].kind == driver[k].kind && ts_target_gpu(device[i].target) &&
          strcmp(device[i].kind, "opencl"))
        return device[i].name;
  return "cuda:0";
}

/* The driver's kind that is meant by a name, or -1. */
static int kind_meant(const char *name, const char *lower) {
  char first[32];
  for (int k = 0; k < NDRIVER; k++) {
    snprintf(first, sizeof first, "%s:0", driver[k].kind);
    if (is_kind(name, driver[k].kind) || ts_text_distance(lower, first) <= 2) return k;
  }
  return -1;
}

/* The hint for a number that virtual devices of a kind do not reach. */
static int no_number(const char *full, TsError *err) {
  bool cpu = !strncmp(full, "cpu:", 4);
  const char *digits = full + 4;
  size_t n = strspn(digits, "0123456789");
  if (!cpu && strncmp(full, "sim:", 4)) return 0;
  if (!n || n > 4 || digits[n] || (*digits == '0' && n > 1)) return 0;
  int number = atoi(digits), most = cpu ? TS_DEVICE_MESH - 1 : MOST_SIMULATED;
  if (number >= most)
    ts_error_hint(err, "%.3s:%d is the last one that there can be", full, most - 1);
  else if (cpu)
    ts_error_hint(err,
                  "tessera --devices=cpu:%d makes it; cpu:0 may stand in a mesh several times",
                  number + 1);
  else
    ts_error_hint(err, "there are %d devices already, and a process has %d at most", count,
                  TS_DEVICE_MESH);
  return 1;
}

static int no_device(const char *name, const char *full, TsError *err) {
  char lower[sizeof device->name], text[60], known[TS_MAX_DEVICES * 26] = "";
  int all = count + (by_name(simulated[0]) ? 0 : 2);
  size_t n = 0;
  for (int i = 0; i < all; i++)
    n += (size_t)snprintf(known + n, 26, "%s%s", i ? ", " : "", nth_name(NULL, i));
  snprintf(lower, sizeof lower, "%s", full);
  for (char *c = lower; *c; c++) *c = (char)tolower((unsigned char)*c);
  const char *guess = ts_text_closest(lower, all, nth_name, NULL), *gpu = some_gpu();
  int meant = kind_meant(name, lower);
  if (meant < 0 && is_kind(name, "gpu")) meant = 0;
  const char *why = meant >= 0 ? driver[meant].none : NULL;
  bool other = why && by_name(gpu) && !is_kind(name, driver[meant].kind); /* of another maker */
  if (other) why = NULL;
  ts_error_set(err, TS_ERR_device, "there is no device '%s'%s%s",
               ts_text_shown(name, text, sizeof text), why ? ": " : "", why ? why : "");
  if (no_number(full, err)) return -1;
  if (meant >= 0 && why == driver[meant].some)
    return ts_error_hint(err, "known devices: %s", known);
  if (why) return ts_error_hint(err, "sim:0 simulates one; known devices: %s", known);
  if (meant >= 0 && (other || is_kind(name, "gpu") || !guess)) guess = gpu;
  if (!guess) return ts_error_hint(err, "known devices: %s", known);
  return ts_error_hint(err, "did you mean '%s'? known devices: %s", guess, known);
}

TsDevice *ts_device_find(const char *name, TsError *err) {
  start();
  char full[32];
  snprintf(full, sizeof full, "%s%s", name, strchr(name, ':') ? "" : ":0");
  simulate(full);
  TsDevice *d = by_name(full);
  if (d) return d;
  for (int k = 0; k < NDRIVER; k++)
    if (is_kind(name, driver[k].kind)) probe(k);
  if ((d = by_name(full))) return d;
  probe_all();
  if (!(d = by_name(full))) no_device(name, full, err);
  return d;
}

int ts_device_configure(const char *spec, TsError *err) {
  start();
  int n = 0, end = 0;
  bool read = sscanf(spec, "cpu:%d%n", &n, &end) == 1 && !spec[end];
  if (!read || n < 1 || count + n - 1 > TS_DEVICE_MESH) {
    ts_error_set(err, TS_ERR_device, "cannot make the devices '%s'", spec);
    return ts_error_hint(err, "cpu:N makes N virtual CPU devices, N <= %d", TS_DEVICE_MESH - 1);
  }
  for (int i = 1; i < n; i++) add("cpu", i, ts_cpu_device);
  return 0;
}
