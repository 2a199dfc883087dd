/* Intel's library: Level Zero, as the calls that devices/driver/driver.h knows. */
#include <stdio.h>

#include "devices/driver/level_zero_api.h"

TsZeApi ts_ze;
_Thread_local TsZeFailed ts_ze_failed;
static char missing[240];

static const TsDriverSymbol symbols[] = {
#define CALL(name, args) {#name, offsetof(TsZeApi, name)},
    TS_ZE_CALLS(CALL)
#undef CALL
};

static void say(int code, const char **name, const char **text) {
  static const struct {
    unsigned code;
    const char *name, *text;
  } row[] = {
      {ZE_NOT_READY, "ZE_RESULT_NOT_READY", "it has not been signalled"},
      {ZE_DEVICE_LOST, "ZE_RESULT_ERROR_DEVICE_LOST", "the device hung, was reset or removed"},
      {ZE_OUT_OF_HOST_MEMORY, "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY", "out of host memory"},
      {ZE_OUT_OF_DEVICE_MEMORY, "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", "out of memory"},
      {0x70000004, "ZE_RESULT_ERROR_MODULE_BUILD_FAILURE", "the code cannot be built"},
      {0x70000005, "ZE_RESULT_ERROR_MODULE_LINK_FAILURE", "the code cannot be linked"},
      {0x70010000, "ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS", "access is denied"},
      {0x70010001, "ZE_RESULT_ERROR_NOT_AVAILABLE", "somebody else has it"},
      {0x70020000, "ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE",
       "something that it needs is missing"},
      {0x78000001, "ZE_RESULT_ERROR_UNINITIALIZED", "there is no driver"},
      {0x78000002, "ZE_RESULT_ERROR_UNSUPPORTED_VERSION", "another version is needed"},
      {0x78000003, "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE", "the device has no such feature"},
      {0x78000004, "ZE_RESULT_ERROR_INVALID_ARGUMENT", "invalid argument"},
      {0x78000005, "ZE_RESULT_ERROR_INVALID_NULL_HANDLE", "a handle is NULL"},
      {0x78000006, "ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE", "it is still in use"},
      {0x78000007, "ZE_RESULT_ERROR_INVALID_NULL_POINTER", "a pointer is NULL"},
      {0x78000008, "ZE_RESULT_ERROR_INVALID_SIZE", "invalid size"},
      {0x78000009, "ZE_RESULT_ERROR_UNSUPPORTED_SIZE", "a size that the device has not"},
      {0x7800000a, "ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT", "invalid alignment"},
      {0x7800000e, "ZE_RESULT_ERROR_INVALID_GLOBAL_NAME", "no such variable"},
      {0x7800000f, "ZE_RESULT_ERROR_INVALID_NATIVE_BINARY", "not code of this device"},
      {0x78000011, "ZE_RESULT_ERROR_INVALID_KERNEL_NAME", "no such kernel"},
      {0x78000013, "ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION",
       "a block of this size cannot be"},
      {0x78000015, "ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX", "no such argument"},
      {0x78000016, "ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE",
       "an argument of another size"},
      {0x7ffffffe, "ZE_RESULT_ERROR_UNKNOWN", "something failed in the driver"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (row[i].code == (unsigned)code) *name = row[i].name, *text = row[i].text;
}

static void load(void) {
  static const char *const names[] = {"libze_loader.so.1", NULL};
  const char *name = NULL, *text = NULL;
  const TsDriverLibrary l = {"no Level Zero", "TESSERA_LIBZE", names[0], names};
  void *library = ts_driver_library(&l, missing, sizeof missing);
  if (!library) return;
  const char *symbol =
      ts_driver_symbols(library, sizeof symbols / sizeof *symbols, symbols, &ts_ze);
  if (symbol) {
    snprintf(missing, sizeof missing, "Level Zero has no %s", symbol);
    return;
  }
  ZeResult code = ts_ze.zeInit(ZE_INIT_GPU_ONLY);
  if (!code) return;
  say(code, &name, &text);
  snprintf(missing, sizeof missing, "no GPU of Level Zero: zeInit: %s (0x%x): %s",
           name ? name : "unknown error", (unsigned)code, text ? text : "no text");
}

const char *ts_ze_load(void) {
  static bool done;
  if (!done) load();
  done = true;
  return missing[0] ? missing : NULL;
}

/* ---- memory */
static ZeResult ze_alloc(void **at, size_t nbytes) {
  enum { ALIGN = 512, RELAXED = 1 };
  TsZe *s = ts_ze_here();
  ZeContextDesc large = {{ZE_TYPE_LARGE_ALLOC_DESC, NULL}, RELAXED};
  ZeAllocDesc desc = {.head = {ZE_TYPE_DEVICE_ALLOC_DESC, NULL}};
  if (nbytes > s->properties.most_alloc) desc.head.next = &large;
  ZeResult code = ZE_DO(zeMemAllocDevice, s->context, &desc, nbytes, ALIGN, s->device, at);
  if (!code) s->taken += nbytes;
  return code;
}

static ZeResult ze_free(void *at) {
  TsZe *s = ts_ze_here();
  void *base = NULL;
  size_t nbytes = 0;
  if (!ts_ze.zeMemGetAddressRange(s->context, at, &base, &nbytes))
    s->taken -= nbytes < s->taken ? nbytes : s->taken;
  ZeResult code = ts_ze_synchronize(); /* what is queued may use it */
  if (!code) return ZE_DO(zeMemFree, s->context, at);
  ts_ze.zeMemFree(s->context, at);
  return code;
}

/* Of this process alone: others' memory is not asked for. */
static ZeResult room(size_t *nfree, size_t *total) {
  const TsZe *s = ts_ze_here();
  *total = s->of.total;
  *nfree = s->taken < s->of.total ? s->of.total - s->taken : 0;
  return 0;
}

static ZeResult host_alloc(void **at, size_t nbytes, unsigned flags) {
  enum { ALIGN = 4096 };
  ZeContextDesc desc = {{ZE_TYPE_HOST_ALLOC_DESC, NULL}, flags};
  return ZE_DO(zeMemAllocHost, ts_ze_here()->context, &desc, nbytes, ALIGN, at);
}

static ZeResult host_free(void *at) { return ZE_DO(zeMemFree, ts_ze_here()->context, at); }

static ZeResult copy(void *to, const void *from, size_t nbytes, void *stream) {
  return ZE_APPEND(stream, zeCommandListAppendMemoryCopy, to, from, nbytes, NULL, 0, NULL);
}

/* ---- between devices, which have one context and see each other's memory or not */
static int enter(TsDevice *d, TsError *err) { return (void)d, (void)err, 0; }

static bool reach(TsDevice *d, TsDevice *other) {
  const TsZe *s = d->state, *o = other->state;
  uint8_t can = 0;
  if (s->context != o->context) return false;
  return !ts_ze.zeDeviceCanAccessPeer(s->device, o->device, &can) && can;
}

static ZeResult can_reach(int *can, int device, int other) {
  (void)device, (void)other; /* see reach */
  *can = 1;
  return 0;
}

static int copy_peer(TsDevice *d, void *to, TsDevice *source, const void *from, size_t nbytes,
                     void *stream, TsError *err) {
  (void)source;
  ZeResult code = copy(to, from, nbytes, stream);
  return code ? ts_driver_fail(d, code, "zeCommandListAppendMemoryCopy", err) : 0;
}

static bool is_fatal(int code) { return code == ZE_DEVICE_LOST; }

static const char *failed(int code, const char *call) {
  return ts_ze_failed.code == code ? ts_ze_failed.call : call;
}

const TsDriver ts_ze_driver = {
    .can_reach = can_reach,
    .synchronize = ts_ze_synchronize,
    .room = room,
    .alloc = ze_alloc,
    .free = ze_free,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .copy_to = copy,
    .copy_from = copy,
    .copy_inside = copy,
    .stream_new = ts_ze_stream_new,
    .stream_first = ts_ze_stream_first,
    .stream_free = ts_ze_stream_free,
    .stream_wait = ts_ze_stream_wait,
    .stream_after = ts_ze_stream_after,
    .event_new = ts_ze_event_new,
    .event_free = ts_ze_event_free,
    .event_record = ts_ze_event_record,
    .event_wait = ts_ze_event_wait,
    .event_msec = ts_ze_event_msec,
    .module_free = ts_ze_module_free,
    .graph_new = ts_ze_graph_new,
    .graph_free = ts_ze_graph_free,
    .graph_launch = ts_ze_graph_launch,
    .exec_free = ts_ze_exec_free,
    .node_new = ts_ze_node_new,
    .node_set = ts_ze_node_set,
    .exec_new = ts_ze_exec_new,
    .name =
        {
            .synchronize = "zeEventHostSynchronize",
            .alloc = "zeMemAllocDevice",
            .free = "zeMemFree",
            .host_alloc = "zeMemAllocHost",
            .host_free = "zeMemFree",
            .copy_to = "zeCommandListAppendMemoryCopy",
            .copy_from = "zeCommandListAppendMemoryCopy",
            .copy_inside = "zeCommandListAppendMemoryCopy",
            .stream_new = "zeCommandListCreateImmediate",
            .stream_first = "zeCommandListCreateImmediate",
            .stream_free = "zeCommandListDestroy",
            .stream_wait = "zeEventHostSynchronize",
            .stream_after = "zeCommandListAppendWaitOnEvents",
            .event_new = "zeEventCreate",
            .event_free = "zeEventDestroy",
            .event_record = "zeCommandListAppendSignalEvent",
            .event_wait = "zeEventHostSynchronize",
            .event_msec = "zeEventQueryKernelTimestamp",
            .module_free = "zeModuleDestroy",
            .graph_new = "zeCommandListCreate",
            .graph_launch = "zeCommandQueueExecuteCommandLists",
        },
    .units = "Xe cores",
    .full = ZE_OUT_OF_DEVICE_MEMORY,
    .is_fatal = is_fatal,
    .say = say,
    .failed = failed,
    .enter = enter,
    .reach = reach,
    .copies = reach, /* by the one that receives */
    .copy_peer = copy_peer,
};
