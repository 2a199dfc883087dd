/* A driver of Level Zero without a GPU (fake_base.h): what devices/driver/level_zero*.c
 * uses, for two devices of one context. Commands of an immediate list run when they are appended,
 * those of another one when a queue executes it, closed; an event is signalled once and has to be
 * reset, and nobody may wait for one that nobody signals, or that its device does not see.
 * FAKE_ZE_VERSION is the interface's: before 1.7 (65543) each command has to have a barrier
 * behind it, later the list has to be one in order. It knows one kernel, "triple". FAKE_ZE_MATRIX: it says of
 * devices that they have a matrix unit ("dpas"), which multiplies none of our matrices ("few"), or no unit ("none");
 * without f64. */
enum {
  INVALID = 0x78000004,
  OUT_OF_MEMORY = 0x70000003,
  ILLEGAL_ADDRESS = 0x70000001, /* the device is lost */
  FAKE_FIRST = 0,
};
#include "tests/devices/driver/fake_base.h"

#include "devices/driver/level_zero_api.h"
#include "tests/devices/driver/fake_ze.h"

#define CALL(name, args) ZeResult fake_##name args __asm__(#name);
TS_ZE_CALLS(CALL)
#undef CALL
#define CALLED  (__func__ + strlen("fake_"))
#define ENTER() ENTER_AS(CALLED)

static uint32_t version(void) {
  const char *text = getenv("FAKE_ZE_VERSION");
  return text ? (uint32_t)atoi(text) : 1 << 16 | 9;
}
static char driver_of_all, context_of_all, device_of[NDEVICE + 1];
static bool apart;
void fake_apart(int on) { apart = on; }
static int number_of(const void *device) { return (int)((const char *)device - device_of); }

/* ---- what there is */
ZeResult fake_zeInit(unsigned flags) {
  ENTER();
  return flags == ZE_INIT_GPU_ONLY ? 0 : INVALID;
}
ZeResult fake_zeDriverGet(uint32_t *n, void **driver) {
  ENTER();
  if (driver) *driver = &driver_of_all;
  *n = 1;
  return 0;
}
ZeResult fake_zeDriverGetApiVersion(void *driver, uint32_t *out) {
  (void)driver;
  *out = version();
  return 0;
}
ZeResult fake_zeDriverGetProperties(void *driver, ZeDriverProperties *out) {
  (void)driver;
  out->version = 7;
  return out->head.type == ZE_TYPE_DRIVER ? 0 : INVALID;
}
static bool matrix_is(const char *word) {
  const char *text = getenv("FAKE_ZE_MATRIX");
  return word ? text && !strcmp(text, word) : text != NULL;
}
ZeResult fake_zeDriverGetExtensionProperties(void *driver, uint32_t *n, ZeExtension *list) {
  (void)driver;
  const ZeExtension all[] = {{"ZE_extension_float_atomics", 1 << 16},
                             {ZE_DOT_PRODUCTS, 1 << 16}};
  uint32_t has = matrix_is(NULL) ? 2 : 1;
  for (uint32_t i = 0; list && i < *n && i < has; i++) list[i] = all[i];
  *n = has;
  return 0;
}
ZeResult fake_zeDeviceGet(void *driver, uint32_t *n, void **device) {
  (void)driver;
  for (int i = 0; device && i < NDEVICE; i++) device[i] = &device_of[i + 1];
  *n = NDEVICE;
  return 0;
}
ZeResult fake_zeDeviceGetSubDevices(void *device, uint32_t *n, void **part) {
  (void)device, (void)part;
  *n = 0;
  return 0;
}
ZeResult fake_zeDeviceGetProperties(void *device, ZeDeviceProperties *out) {
  ZeHead head = out->head;
  if (head.type != ZE_TYPE_DEVICE || head.next) return INVALID;
  *out = (ZeDeviceProperties){.head = head,
                              .type = ZE_DEVICE_TYPE_GPU,
                              .clock = 1600,
                              .most_alloc = 4u << 30 >> 1,
                              .subslices = 8,
                              .slices = 2,
                              .timer = 80,
                              .kernel_timer_bits = 32};
  snprintf(out->name, sizeof out->name, "Fake Xe %d", number_of(device) - 1);
  return 0;
}
ZeResult fake_zeDeviceGetComputeProperties(void *device, ZeComputeProperties *out) {
  (void)device;
  out->threads = 1024, out->shared = 128 << 10;
  out->nsubgroup = 2, out->subgroup[0] = 16, out->subgroup[1] = 32;
  return out->head.type == ZE_TYPE_COMPUTE ? 0 : INVALID;
}
ZeResult fake_zeDeviceGetModuleProperties(void *device, ZeModuleProperties *out) {
  (void)device;
  out->spirv = 1 << 16 | 2 << 8;
  out->flags = ZE_HAS_FP16 | (matrix_is(NULL) && !getenv("FAKE_ZE_FP64") ? 0 : ZE_HAS_FP64);
  ZeDotProperties *dot = (ZeDotProperties *)(uintptr_t)out->head.next;
  if (!dot != !matrix_is(NULL))
    return wrong(INVALID, CALLED, "an extension that is not listed");
  if (dot && dot->head.type != ZE_TYPE_DOT_PRODUCTS) return INVALID;
  if (dot) dot->flags = matrix_is("none") ? 1 : 3;
  return out->head.type == ZE_TYPE_MODULE_PROPERTIES ? 0 : INVALID;
}
ZeResult fake_zeDeviceGetMemoryProperties(void *device, uint32_t *n, ZeMemoryProperties *out) {
  (void)device;
  if (out) out->total = (uint64_t)limit, out->clock = 3200, out->width = 1024;
  *n = 1;
  return 0;
}
ZeResult fake_zeDeviceGetCommandQueueGroupProperties(void *device, uint32_t *n,
                                                     ZeQueueGroup *out) {
  (void)device;
  if (out && *n == 2)
    out[0].flags = 2, out[1].flags = ZE_GROUP_COMPUTE, out[0].queues = out[1].queues = 1;
  *n = 2;
  return 0;
}
ZeResult fake_zeDeviceCanAccessPeer(void *device, void *other, uint8_t *can) {
  ENTER();
  *can = device != other && !apart;
  return 0;
}
ZeResult fake_zeContextCreate(void *driver, const ZeContextDesc *desc, void **context) {
  ENTER();
  *context = &context_of_all;
  return driver == &driver_of_all && desc->head.type == ZE_TYPE_CONTEXT_DESC ? 0 : INVALID;
}

/* ---- memory: whose it is, is said by each call */
ZeResult fake_zeMemAllocDevice(void *context, const ZeAllocDesc *desc, size_t nbytes,
                               size_t align, void *device, void **at) {
  ENTER();
  if (context != &context_of_all || desc->head.type != ZE_TYPE_DEVICE_ALLOC_DESC || align > 512)
    return wrong(INVALID, CALLED, "a context, a struct or an alignment");
  current = number_of(device);
  return block_new(CALLED, at, nbytes);
}
ZeResult fake_zeMemAllocHost(void *context, const ZeContextDesc *desc, size_t nbytes,
                             size_t align, void **at) {
  (void)align;
  ENTER();
  if (context != &context_of_all || desc->head.type != ZE_TYPE_HOST_ALLOC_DESC)
    return wrong(INVALID, CALLED, "a context or a struct");
  return pinned_new(at, nbytes);
}
ZeResult fake_zeMemFree(void *context, void *at) {
  (void)context;
  ENTER();
  return is_pinned(at) ? pinned_free(CALLED, at) : block_free(CALLED, at);
}
ZeResult fake_zeMemGetAddressRange(void *context, const void *at, void **base, size_t *nbytes) {
  (void)context;
  for (int i = 0; i < nblocks; i++)
    if (block[i].at == at) return *base = block[i].at, *nbytes = block[i].nbytes, 0;
  return INVALID;
}

/* ---- order */
typedef struct Event Event;
typedef struct Kernel {
  Handle of;
  struct Module *module;
  uint32_t threads;
  uint64_t arg[2];
} Kernel;
/* A command that is kept: of an event, of a kernel as it was, or a barrier. */
typedef struct Command {
  enum { WAIT, RESET, SIGNAL, BARRIER, LAUNCH } what;
  Event *event;
  Kernel *kernel, was;
} Command;
typedef struct List {
  Handle of;
  bool open;          /* a command has no barrier behind it */
  bool busy;          /* it has commands whose end nobody has waited for */
  bool later, closed; /* not an immediate one */
  int n;
  Command command[64];
} List;
struct Event {
  Handle of;
  void *pool;
  List *list; /* whose last command signals it */
  bool signalled;
};
typedef struct Pool {
  Handle of;
  int only; /* the device that sees its events; 0: all */
  unsigned flags;
  uint32_t n, used;
} Pool;

static long barriers;
long fake_barriers(void) { return barriers; }
long fake_busy(void) {
  long n = 0;
  for (Handle *h = handles; h; h = h->next) n += !strcmp(h->kind, "list") && ((List *)h)->busy;
  return n;
}
static int seen(const char *call, const Event *e, int device) {
  int only = ((const Pool *)e->pool)->only;
  return only && only != device ? wrong(INVALID, call, "an event that the device does not see")
                                : 0;
}

ZeResult fake_zeCommandListCreateImmediate(void *context, void *device, const ZeQueueDesc *desc,
                                           void **list) {
  ENTER();
  bool in_order = desc->flags & ZE_QUEUE_IN_ORDER;
  if (context != &context_of_all || desc->head.type != ZE_TYPE_QUEUE_DESC ||
      desc->ordinal != 1 || in_order != (version() >= ZE_VERSION_IN_ORDER))
    return wrong(INVALID, CALLED, "a group without kernels, or no order");
  current = number_of(device);
  *list = handle_new(sizeof(List), "list");
  return 0;
}
ZeResult fake_zeCommandListDestroy(void *list) {
  ENTER();
  flush();
  MUST(check(CALLED, list, "list"));
  current = ((Handle *)list)->device;
  return handle_free(CALLED, list, "list");
}
/* A command; another may come when there is order between them. */
static int command(const char *call, void *list) {
  List *l = list;
  MUST(check(call, list, "list"));
  if (l->closed || (l->later && l->n == 64))
    return wrong(INVALID, call, "of a list that is closed or full");
  if (version() < ZE_VERSION_IN_ORDER && l->open && !l->later)
    return wrong(INVALID, call, "without a barrier behind the command before");
  l->open = true, l->busy = !l->later;
  current = l->of.device;
  return 0;
}
static int keep(List *l, Command c) {
  l->command[l->n++] = c;
  return 0;
}
ZeResult fake_zeCommandListAppendBarrier(void *list, void *signal, uint32_t n, void **wait) {
  ENTER();
  MUST(check(CALLED, list, "list"));
  List *l = list;
  l->open = false;
  if (l->closed || signal || n || wait) return INVALID;
  return l->later ? keep(l, (Command){.what = BARRIER}) : 0;
}
ZeResult fake_zeCommandListCreate(void *context, void *device, const ZeListDesc *desc,
                                  void **list) {
  ENTER();
  if (context != &context_of_all || desc->head.type != ZE_TYPE_LIST_DESC || desc->ordinal != 1)
    return wrong(INVALID, CALLED, "a context, a struct or a group without kernels");
  current = number_of(device);
  List *l = handle_new(sizeof *l, "list");
  l->later = true;
  *list = l;
  return 0;
}
ZeResult fake_zeCommandListClose(void *list) {
  ENTER();
  MUST(check(CALLED, list, "list"));
  List *l = list;
  if (!l->later || l->closed) return wrong(INVALID, CALLED, "a list that cannot be closed");
  l->closed = true;
  return 0;
}
ZeResult fake_zeCommandListReset(void *list) {
  ENTER();
  MUST(check(CALLED, list, "list"));
  List *l = list;
  if (!l->later || l->busy) return wrong(INVALID, CALLED, "a list that runs");
  l->closed = false, l->n = 0;
  return 0;
}
ZeResult fake_zeCommandQueueCreate(void *context, void *device, const ZeQueueDesc *desc,
                                   void **queue) {
  ENTER();
  if (context != &context_of_all || desc->head.type != ZE_TYPE_QUEUE_DESC || desc->ordinal != 1)
    return wrong(INVALID, CALLED, "a context, a struct or a group without kernels");
  current = number_of(device);
  *queue = handle_new(sizeof(Handle), "queue");
  return 0;
}
ZeResult fake_zeCommandListAppendMemoryCopy(void *list, void *to, const void *from, size_t n,
                                            void *signal, uint32_t nwait, void **wait) {
  ENTER();
  MUST(command(CALLED, list));
  if (signal || nwait || wait || ((List *)list)->later) return INVALID;
  for (int i = 0; i < 2; i++) {
    const void *at = i ? from : to;
    if (!is_pinned(at)) MUST(is_inside(CALLED, at, n, apart ? current : 0));
  }
  put_off(to, from, n);
  return 0;
}
ZeResult fake_zeEventPoolCreate(void *context, const ZePoolDesc *desc, uint32_t n,
                                void **device, void **pool) {
  ENTER();
  if (context != &context_of_all || n > 1 || !n != !device ||
      desc->head.type != ZE_TYPE_POOL_DESC)
    return wrong(INVALID, CALLED, "a context or a struct");
  Pool *p = handle_new(sizeof *p, "pool");
  p->only = n ? number_of(*device) : 0;
  p->n = desc->count, p->flags = desc->flags;
  *pool = p;
  return 0;
}
ZeResult fake_zeEventPoolDestroy(void *pool) {
  ENTER();
  MUST(check(CALLED, pool, "pool"));
  if (((Pool *)pool)->used) return wrong(INVALID, CALLED, "it has events that live");
  current = ((Handle *)pool)->device;
  return handle_free(CALLED, pool, "pool");
}
ZeResult fake_zeEventCreate(void *pool, const ZeEventDesc *desc, void **event) {
  ENTER();
  Pool *p = pool;
  MUST(check(CALLED, pool, "pool"));
  if (desc->head.type != ZE_TYPE_EVENT_DESC || desc->index >= p->n) return INVALID;
  current = p->of.device;
  Event *e = handle_new(sizeof *e, "event");
  e->pool = pool, p->used++;
  *event = e;
  return 0;
}
ZeResult fake_zeEventDestroy(void *event) {
  ENTER();
  MUST(check(CALLED, event, "event"));
  ((Pool *)((Event *)event)->pool)->used--;
  current = ((Handle *)event)->device;
  return handle_free(CALLED, event, "event");
}
static int signal_event(const char *call, List *l, Event *e) {
  if (e->signalled) return wrong(INVALID, call, "it was not reset");
  e->signalled = true, e->list = l;
  return 0;
}
ZeResult fake_zeCommandListAppendSignalEvent(void *list, void *event) {
  ENTER();
  MUST(command(CALLED, list));
  MUST(check(CALLED, event, "event"));
  MUST(seen(CALLED, event, current));
  List *l = list;
  return l->later ? keep(l, (Command){.what = SIGNAL, .event = event})
                  : signal_event(CALLED, l, event);
}
ZeResult fake_zeCommandListAppendEventReset(void *list, void *event) {
  ENTER();
  MUST(command(CALLED, list));
  MUST(check(CALLED, event, "event"));
  List *l = list;
  if (l->later) return keep(l, (Command){.what = RESET, .event = event});
  ((Event *)event)->signalled = false;
  return 0;
}
ZeResult fake_zeCommandListAppendWaitOnEvents(void *list, uint32_t n, void **event) {
  ENTER();
  MUST(command(CALLED, list));
  List *l = list;
  for (uint32_t i = 0; i < n; i++) {
    MUST(check(CALLED, event[i], "event"));
    MUST(seen(CALLED, event[i], current));
    if (l->later)
      keep(l, (Command){.what = WAIT, .event = event[i]});
    else if (!((Event *)event[i])->signalled)
      return wrong(INVALID, CALLED, "nobody signals it");
  }
  return 0;
}
ZeResult fake_zeEventHostSynchronize(void *event, uint64_t nsec) {
  (void)nsec;
  ENTER();
  flush();
  MUST(check(CALLED, event, "event"));
  if (!((Event *)event)->signalled) return wrong(INVALID, CALLED, "nobody signals it");
  List *l = ((Event *)event)->list;
  if (handle_of(l, "list")) l->open = l->busy = false; /* all of it is over */
  return 0;
}
ZeResult fake_zeEventHostReset(void *event) {
  ENTER();
  MUST(check(CALLED, event, "event"));
  ((Event *)event)->signalled = false;
  return 0;
}
ZeResult fake_zeEventQueryKernelTimestamp(void *event, ZeTimes *out) {
  ENTER();
  MUST(check(CALLED, event, "event"));
  const Event *e = event;
  if (!e->signalled || !(((Pool *)e->pool)->flags & ZE_POOL_TIMESTAMP)) return ZE_NOT_READY;
  static uint64_t ticks;
  *out = (ZeTimes){.global = {ticks, ticks + 100}};
  ticks += 1000;
  return 0;
}

/* ---- code */
typedef struct Module {
  Handle of;
  int kernels;
} Module;

ZeResult fake_zeModuleCreate(void *context, void *device, const ZeModuleDesc *desc,
                             void **module, void **log) {
  while (held) usleep(100);
  ENTER();
  if (context != &context_of_all || desc->head.type != ZE_TYPE_MODULE_DESC ||
      desc->format != ZE_MODULE_SPIRV)
    return wrong(INVALID, CALLED, "a context, a struct or a format");
  enum { BRAIN_MATRIX = 5118 };
  bool matrices = false;
  for (size_t i = 5; i < desc->nbytes / 4 && i < 30; i++)
    matrices |= ((const uint32_t *)desc->code)[i] == BRAIN_MATRIX;
  if (desc->nbytes < 20 || (matrices && !matrix_is("dpas")) ||
      *(const uint32_t *)desc->code != 0x07230203) {
    *log = handle_new(sizeof(Handle), "log");
    return 0x70000004;
  }
  current = number_of(device);
  *module = handle_new(sizeof(Module), "module");
  return 0;
}
ZeResult fake_zeModuleBuildLogGetString(void *log, size_t *n, char *text) {
  static const char said[] = "error: no SPIR-V";
  MUST(check(CALLED, log, "log"));
  if (text) memcpy(text, said, sizeof said);
  *n = sizeof said;
  return 0;
}
ZeResult fake_zeModuleBuildLogDestroy(void *log) {
  MUST(check(CALLED, log, "log"));
  current = ((Handle *)log)->device;
  return handle_free(CALLED, log, "log");
}
ZeResult fake_zeModuleDestroy(void *module) {
  ENTER();
  MUST(check(CALLED, module, "module"));
  if (((Module *)module)->kernels) return wrong(INVALID, CALLED, "it has kernels that live");
  current = ((Handle *)module)->device;
  return handle_free(CALLED, module, "module");
}
ZeResult fake_zeKernelCreate(void *module, const ZeKernelDesc *desc, void **kernel) {
  ENTER();
  MUST(check(CALLED, module, "module"));
  if (strcmp(desc->name, "triple") && !any) return 0x78000011;
  current = ((Handle *)module)->device;
  Kernel *k = handle_new(sizeof *k, "kernel");
  k->module = module, k->module->kernels++;
  *kernel = k;
  return 0;
}
ZeResult fake_zeKernelDestroy(void *kernel) {
  ENTER();
  MUST(check(CALLED, kernel, "kernel"));
  ((Kernel *)kernel)->module->kernels--;
  current = ((Handle *)kernel)->device;
  return handle_free(CALLED, kernel, "kernel");
}
ZeResult fake_zeKernelSetGroupSize(void *kernel, uint32_t x, uint32_t y, uint32_t z) {
  ENTER();
  MUST(check(CALLED, kernel, "kernel"));
  uint32_t threads = x * y * z;
  ((Kernel *)kernel)->threads = threads;
  return threads && threads <= 1024 ? 0 : 0x78000013;
}
ZeResult fake_zeKernelSetArgumentValue(void *kernel, uint32_t i, size_t nbytes,
                                       const void *value) {
  ENTER();
  MUST(check(CALLED, kernel, "kernel"));
  if (any) return 0;
  if (i > 1) return 0x78000015;
  if (nbytes != 8 || !value) return 0x78000016;
  memcpy(&((Kernel *)kernel)->arg[i], value, 8);
  return 0;
}
static int run(const char *call, const Kernel *k) {
  flush();
  float *x = (void *)(uintptr_t)k->arg[0];
  int64_t n = (int64_t)k->arg[1];
  if (!any) MUST(is_inside(call, x, (size_t)n * sizeof *x, current));
  for (int64_t i = 0; i < n && !any; i++) x[i] *= 3;
  return 0;
}
ZeResult fake_zeCommandListAppendLaunchKernel(void *list, void *kernel, const ZeGroups *groups,
                                              void *signal, uint32_t nwait, void **wait) {
  ENTER();
  Kernel *k = kernel;
  MUST(command(CALLED, list));
  MUST(check_here(CALLED, kernel, "kernel"));
  if (signal || nwait || wait || !groups->x || !k->threads) return INVALID;
  List *l = list;
  return l->later ? keep(l, (Command){.what = LAUNCH, .kernel = k, .was = *k}) : run(CALLED, k);
}
/* The kernel has to live; what it was launched with is what the list was given. */
static int run_command(const char *call, List *l, const Command *c) {
  if (c->what != LAUNCH && c->what != BARRIER) MUST(check(call, c->event, "event"));
  switch (c->what) {
  case WAIT: return c->event->signalled ? 0 : wrong(INVALID, call, "nobody signals it");
  case RESET: return c->event->signalled = false, 0;
  case SIGNAL: return signal_event(call, l, c->event);
  case BARRIER: return barriers++, 0;
  case LAUNCH: MUST(check_here(call, c->kernel, "kernel")); return run(call, &c->was);
  }
  return INVALID;
}
ZeResult fake_zeCommandQueueExecuteCommandLists(void *queue, uint32_t n, void **list,
                                                void *fence) {
  ENTER();
  MUST(check(CALLED, queue, "queue"));
  MUST(check(CALLED, *list, "list"));
  List *l = *list;
  if (n != 1 || fence || !l->closed) return wrong(INVALID, CALLED, "a list that is open");
  current = ((Handle *)queue)->device;
  MUST(check_here(CALLED, l, "list"));
  l->busy = true, barriers = 0;
  for (int i = 0; i < l->n; i++) MUST(run_command(CALLED, l, &l->command[i]));
  return 0;
}
