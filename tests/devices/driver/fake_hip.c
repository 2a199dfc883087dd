/* A driver of AMD's without a GPU (fake_driver.h): what devices/driver/hip*.c uses. It
 * looks at the code objects that it is given: for this processor, kernels by name, what they
 * take; of a launch, that a block is no larger than its kernel allows, and that each address is
 * memory that lives, of this device or of one that was opened to it. What code does is
 * another's matter (fake_hip_run). FAKE_HIP_CODE is the processor's name. */
#define FAKE_SYMBOL(cuda, version, hip) #hip
#define FAKE_NAME(cuda, hip)            #hip
enum { FAKE_VERSION = 60342131, FAKE_FIRST = 1 };
#include "tests/devices/driver/fake_driver.h"

#include "devices/driver/hip_api.h"
#include "tests/devices/driver/code_object.h"
#include "tests/devices/driver/fake_hip.h"

#define CALL(name, args) int fake_##name args __asm__(#name);
TS_HIP_CALLS(CALL)
#undef CALL
#define ENTER_HERE() ENTER_AS(__func__ + strlen("fake_"))
enum { SHARED = 64 << 10, INVALID_IMAGE = 200, NO_BINARY = 209 };

static FakeHipRun *runs;
void fake_hip_run(FakeHipRun *run) { runs = run; }

/* ---- the driver and its devices */
const char *fake_name(int code) __asm__("hipGetErrorName");
const char *fake_text(int code) __asm__("hipGetErrorString");
const char *fake_name(int code) {
  return code == OUT_OF_MEMORY     ? "hipErrorOutOfMemory"
         : code == 100             ? "hipErrorNoDevice"
         : code == INVALID_IMAGE   ? "hipErrorInvalidImage"
         : code == NO_BINARY       ? "hipErrorNoBinaryForGpu"
         : code == NOT_FOUND       ? "hipErrorNotFound"
         : code == ILLEGAL_ADDRESS ? "hipErrorIllegalAddress"
                                   : "hipErrorInvalidValue";
}
const char *fake_text(int code) {
  return code == OUT_OF_MEMORY     ? "out of memory"
         : code == 100             ? "no ROCm-capable device is detected"
         : code == INVALID_IMAGE   ? "device kernel image is invalid"
         : code == NO_BINARY       ? "no kernel image is available for execution on the device"
         : code == NOT_FOUND       ? "named symbol not found"
         : code == ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
                                   : "invalid argument";
}
static const char *processor(void) {
  const char *code = getenv("FAKE_HIP_CODE");
  return code ? code : "gfx942:sramecc+:xnack-";
}
static void fake_model(char *name, size_t size, int device) {
  snprintf(name, size, "Fake Instinct %d", device);
}
static int fake_fact(int attribute, int device) {
  (void)device;
  return attribute == HIP_ATTRIBUTE_CLOCK_RATE                       ? 2100000
         : attribute == HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT           ? 304
         : attribute == HIP_ATTRIBUTE_MEMORY_CLOCK_RATE              ? 1300000
         : attribute == HIP_ATTRIBUTE_MEMORY_BUS_WIDTH               ? 8192
         : attribute == HIP_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR ? 2048
                                                                     : 0;
}
/* Much before and behind, as in the struct of some version. */
int fake_properties(char *out, int device) __asm__("hipGetDevicePropertiesR0600");
int fake_properties(char *out, int device) {
  ENTER_AS("hipGetDeviceProperties");
  if (device < 0 || device >= NDEVICE) return INVALID;
  memset(out, 0, 1472);
  snprintf(out, 256, "Fake Instinct %d", device);
  snprintf(out + 1160, 256, "%s", processor());
  return 0;
}
int fake_hipSetDevice(int device) {
  ENTER_HERE();
  if (device < 0 || device >= NDEVICE) return INVALID;
  current = device + 1;
  return 0;
}
static bool opened[NDEVICE + 1][NDEVICE + 1];
int fake_hipDeviceEnablePeerAccess(int other, unsigned flags) {
  ENTER_HERE();
  if (flags || other + 1 == current) return INVALID;
  if (opened[current][other + 1]) return HIP_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  opened[current][other + 1] = true;
  return 0;
}
int fake_hipMemcpyPeerAsync(void *to, int there, const void *from, int here, size_t n,
                            void *stream) {
  ENTER_HERE();
  return copy_between("hipMemcpyPeerAsync", to, there + 1, from, here + 1, n, stream);
}

/* ---- code */
typedef struct Module {
  Handle of;
  const void *code; /* the caller's, who keeps it while the module lives */
  CodeObject object;
} Module;

/* A kernel is a place in its module's list. */
static Module *module_of(const void *kernel) {
  for (Handle *h = handles; h; h = h->next) {
    Module *m = (Module *)h;
    if (strcmp(h->kind, "module")) continue;
    if ((const ObjectKernel *)kernel >= m->object.kernel &&
        (const ObjectKernel *)kernel < m->object.kernel + m->object.nkernel)
      return m;
  }
  return NULL;
}

/* Numbers of ELF: a processor's, or of a family that it is of; which of two features the code
 * must have. */
static bool is_for(uint32_t flags, const char *name) {
  static const struct {
    const char *begin;
    uint32_t number;
  } number[] = {{"gfx90a", 0x3f},  {"gfx942", 0x4c}, {"gfx950", 0x4f},  {"gfx94", 0x5f},
                {"gfx950", 0x5f},  {"gfx900", 0x51}, {"gfx906", 0x51},  {"gfx1030", 0x53},
                {"gfx1100", 0x41}, {"gfx11", 0x54},  {"gfx1200", 0x48}, {"gfx120", 0x59}};
  bool xnack = strstr(name, "xnack+"), sramecc = strstr(name, "sramecc+");
  if (((flags >> 8 & 3) == 3 && !xnack) || ((flags >> 8 & 3) == 2 && xnack)) return false;
  if (((flags >> 10 & 3) == 3 && !sramecc) || ((flags >> 10 & 3) == 2 && sramecc)) return false;
  for (size_t i = 0; i < sizeof number / sizeof *number; i++)
    if ((flags & 0xff) == number[i].number &&
        !strncmp(name, number[i].begin, strlen(number[i].begin)))
      return true;
  return false;
}

int fake_hipModuleLoadData(void **module, const void *code) {
  while (held) usleep(100);
  ENTER_HERE();
  CodeObject o;
  const char *bad = object_read(code, &o);
  if (bad) return INVALID_IMAGE;
  if (!is_for(o.flags, processor())) return NO_BINARY;
  Module *m = handle_new(sizeof(Module), "module");
  m->code = code, m->object = o;
  *module = m;
  return 0;
}
int call_module_free(void *module) {
  ENTER(module_free);
  return handle_free(call_name.module_free, module, "module");
}
int fake_hipModuleGetFunction(void **function, void *module, const char *name) {
  ENTER_HERE();
  MUST(check_here("hipModuleGetFunction", module, "module"));
  CodeObject *o = &((Module *)module)->object;
  if (!runs && !any) return NOT_FOUND;
  for (int i = 0; i < o->nkernel; i++)
    if (!strcmp(o->kernel[i].name, name)) return *function = &o->kernel[i], 0;
  return NOT_FOUND;
}
int call_kernel_fact(int *value, int attribute, void *kernel) {
  ENTER(kernel_fact);
  if (!module_of(kernel)) return wrong(INVALID, call_name.kernel_fact, "no kernel that lives");
  *value = attribute == TS_KERNEL_FACT_REGISTERS ? 32 : 0;
  return 0;
}
int call_kernel_blocks(int *blocks, void *kernel, int threads, size_t shared) {
  ENTER(kernel_blocks);
  if (!module_of(kernel))
    return wrong(INVALID, call_name.kernel_blocks, "no kernel that lives");
  if (threads <= 0 || shared > SHARED) return INVALID;
  *blocks = 2048 / threads;
  return 0;
}
/* Its modules have no variables. */
int call_variable(void **at, size_t *nbytes, void *module, const char *name) {
  (void)name;
  ENTER(variable);
  MUST(check(call_name.variable, module, "module"));
  *at = NULL, *nbytes = 0;
  return NOT_FOUND;
}

/* ---- launches */
/* Memory of the device, or of one that is opened to it. */
static int is_reached(const char *call, uint64_t address) {
  const char *p = (const char *)(uintptr_t)address;
  for (int i = 0; i < nblocks; i++) {
    if (p < block[i].at || p >= block[i].at + block[i].nbytes) continue;
    if (block[i].device == current || opened[current][block[i].device]) return 0;
    return wrong(ILLEGAL_ADDRESS, call, "memory of a device that is not open to this one");
  }
  return wrong(ILLEGAL_ADDRESS, call, "an address of no block");
}

/* Words of arguments that have one each; the bytes of a table, which comes first, apart. */
static int keep(const char *call, FakeLaunch *l, void *kernel, HipDim grid, HipDim size,
                uint32_t shared, void **params) {
  const ObjectKernel *k = kernel;
  const Module *m = module_of(kernel);
  if (!m || m->of.device != current) return wrong(INVALID, call, "no kernel that lives here");
  *l = (FakeLaunch){kernel, {grid.x, grid.y, grid.z}, {size.x, size.y, size.z}, shared, 0, {0},
                    NULL};
  if (!grid.x || !grid.y || !grid.z) return wrong(INVALID, call, "no blocks");
  uint32_t threads = size.x * size.y * size.z;
  if (!threads || threads > k->threads) return INVALID;
  if (shared + k->shared > SHARED) return wrong(INVALID, call, "%u bytes of a block", shared);
  for (int i = 0; i < k->narg; i++) {
    if (k->arg[i].size > 4096) return wrong(INVALID, call, "argument %d is too large", i);
    if (k->arg[i].size > 8)
      memcpy(l->large = malloc(4096), params[i], k->arg[i].size);
    else
      memcpy(&l->word[i], params[i], k->arg[i].size);
    if (k->arg[i].pointer) MUST(is_reached(call, l->word[i]));
  }
  l->nword = k->narg;
  return 0;
}

static int fake_run(const FakeLaunch *l) {
  const Module *m = module_of(l->kernel);
  const ObjectKernel *k = l->kernel;
  void *arg[MOST_ARGS];
  if (!m) return wrong(INVALID, "hipGraphLaunch", "of a module that is gone");
  for (int i = 0; i < l->nword; i++) {
    arg[i] = k->arg[i].size > 8 ? l->large : (void *)(uintptr_t)&l->word[i];
    if (k->arg[i].pointer) MUST(is_reached(k->name, l->word[i]));
  }
  FakeHipLaunch launch = {m->code, k->name, l->grid, l->block, l->shared, l->nword, arg};
  return runs ? runs(&launch) : 0;
}

int fake_hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y,
                               unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared, void *stream, void **params,
                               void **extra) {
  ENTER_HERE();
  FakeLaunch l;
  if (extra) return INVALID;
  MUST(check_here("hipModuleLaunchKernel", stream, "stream"));
  HipDim grid = {grid_x, grid_y, grid_z}, size = {block_x, block_y, block_z};
  MUST(keep("hipModuleLaunchKernel", &l, function, grid, size, shared, params));
  flush();
  int code = any ? 0 : fake_run(&l);
  free(l.large);
  return code;
}
int fake_hipGraphAddKernelNode(void **node, void *graph, void *const *after, size_t nafter,
                               const HipKernelNodeParams *p) {
  ENTER_HERE();
  int code;
  FakeLaunch *l = node_behind("hipGraphAddKernelNode", graph, after, nafter, &code);
  if (!l) return code;
  *node = l;
  return keep("hipGraphAddKernelNode", l, p->function, p->grid, p->block, p->shared, p->params);
}
int fake_hipGraphInstantiate(void **exec, void *graph, void **bad, char *log, size_t size) {
  (void)bad, (void)log;
  ENTER_HERE();
  return size ? INVALID : instantiate("hipGraphInstantiate", exec, graph);
}
/* The kernel stays. */
int fake_hipGraphExecKernelNodeSetParams(void *exec, void *node, const HipKernelNodeParams *p) {
  ENTER_HERE();
  int code;
  FakeLaunch *l = node_in("hipGraphExecKernelNodeSetParams", exec, node, &code), next;
  if (!l) return code;
  if (l->kernel != p->function)
    return wrong(INVALID, "hipGraphExecKernelNodeSetParams", "another kernel");
  MUST(keep("hipGraphExecKernelNodeSetParams", &next, p->function, p->grid, p->block, p->shared,
            p->params));
  free(l->large);
  *l = next;
  return 0;
}
