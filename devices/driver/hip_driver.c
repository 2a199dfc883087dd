/* AMD's library: HIP, which follows CUDA's driver API call by call but for contexts: a device
 * is its number, and the thread's. */
#include <stdio.h>
#include <string.h>

#include "devices/driver/hip_api.h"

TsHipApi ts_hip;
static char missing[240];

static const TsDriverSymbol common[] = {
#define CALL(member, cuda, version, hip, args) {#hip, offsetof(TsDriver, member)},
    TS_DRIVER_CALLS(CALL)
#undef CALL
};

static const TsDriverSymbol own[] = {
#define CALL(name, args) {#name, offsetof(TsHipApi, name)},
    TS_HIP_CALLS(CALL)
#undef CALL
        {"hipGetErrorName", offsetof(TsHipApi, name)},
    {"hipGetErrorString", offsetof(TsHipApi, text)},
};

static void say(int code, const char **name, const char **text) {
  *name = ts_hip.name(code);
  *text = ts_hip.text(code);
}

/* The struct that it fills was made larger with version 6, under another name. */
static const char *find_properties(void *library) {
  static const TsDriverSymbol symbol[] = {{"hipGetDevicePropertiesR0600", 0},
                                          {"hipGetDeviceProperties", 0}};
  return ts_driver_symbols(library, 1, symbol, &ts_hip.properties)
             ? ts_driver_symbols(library, 1, symbol + 1, &ts_hip.properties)
             : NULL;
}

static void load(void) {
  static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6",
                                      "libamdhip64.so.5", NULL};
  const TsDriverLibrary l = {"no AMD driver", "TESSERA_LIBHIP", "libamdhip64.so.7, .6 or .5",
                             names};
  void *library = ts_driver_library(&l, missing, sizeof missing);
  if (!library) return;
  const char *symbol =
      ts_driver_symbols(library, sizeof common / sizeof *common, common, &ts_hip_driver);
  if (!symbol) symbol = ts_driver_symbols(library, sizeof own / sizeof *own, own, &ts_hip);
  if (!symbol) symbol = find_properties(library);
  if (symbol) {
    snprintf(missing, sizeof missing, "the AMD driver has no %s", symbol);
    return;
  }
  int code = ts_hip_driver.init(0);
  if (code)
    snprintf(missing, sizeof missing, "no AMD GPU: hipInit: %s (%d): %s", ts_hip.name(code),
             code, ts_hip.text(code));
}

const char *ts_hip_load(void) {
  static bool done;
  if (!done) load();
  done = true;
  return missing[0] ? missing : NULL;
}

static int enter(TsDevice *d, TsError *err) {
  TS_HIP(d, err, hipSetDevice, ((TsDriven *)d->state)->device);
  return 0;
}

static bool reach(TsDevice *d, TsDevice *other) {
  (void)d;
  int code = ts_hip.hipDeviceEnablePeerAccess(((TsDriven *)other->state)->device, 0);
  return !code || code == HIP_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

static int copy_peer(TsDevice *d, void *to, TsDevice *source, const void *from, size_t nbytes,
                     void *stream, TsError *err) {
  int there = ((TsDriven *)d->state)->device, here = ((TsDriven *)source->state)->device;
  TS_HIP(d, err, hipMemcpyPeerAsync, to, there, from, here, nbytes, stream);
  return 0;
}

static bool is_fatal(int code) { return code == 214 || (code >= 700 && code <= 720); }

TsDriver ts_hip_driver = {
#define CALL(member, cuda, version, hip, args) .name.member = #hip,
    TS_DRIVER_CALLS(CALL)
#undef CALL
        .units = "compute units",
    .full = HIP_ERROR_OUT_OF_MEMORY,
    .threads_attribute = HIP_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
    .reads_at_once = true,
    .is_fatal = is_fatal,
    .say = say,
    .enter = enter,
    .reach = reach,
    .copy_peer = copy_peer,
    .node_new = ts_hip_node_new,
    .node_set = ts_hip_node_set,
    .exec_new = ts_hip_exec_new,
};
