/* A driver of NVIDIA's without a GPU (fake_driver.h): what devices/driver/cuda*.c uses.
 * It knows one kernel, "triple"; after fake_any() it takes all, and runs none. */
#define FAKE_SYMBOL(cuda, version, hip) #cuda version
#define FAKE_NAME(cuda, hip)            #cuda
enum { FAKE_VERSION = 13000, FAKE_FIRST = 0 };
#include "tests/devices/driver/fake_driver.h"

#include "devices/driver/cuda_api.h"

long fake_early(void); /* launches that may begin before the last one ends */
long fake_ahead(void); /* those of the record that was made last */

#define CALL(name, version, args) CUresult fake_##name args __asm__(#name version);
TS_CUDA_CALLS(CALL)
#undef CALL
#define ENTER_HERE() ENTER_AS(__func__ + strlen("fake_"))

/* ---- the driver and its devices */
CUresult fake_cuGetErrorName(CUresult code, const char **text) {
  *text = code == OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == 100             ? "CUDA_ERROR_NO_DEVICE"
          : code == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                    : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
CUresult fake_cuGetErrorString(CUresult code, const char **text) {
  *text = code == OUT_OF_MEMORY     ? "out of memory"
          : code == 100             ? "no CUDA-capable device is detected"
          : code == ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
                                    : "invalid argument";
  return 0;
}
static void fake_model(char *name, size_t size, int device) {
  snprintf(name, size, "Fake GPU %d", device);
}
static int fake_fact(int attribute, int device) {
  (void)device;
  return attribute == CU_DEVICE_ATTRIBUTE_CLOCK_RATE                 ? 1980000
         : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT     ? 132
         : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
                                                                     : 0;
}
CUresult fake_cuDevicePrimaryCtxRetain(CUcontext *context, int device) {
  ENTER_HERE();
  *context = (CUcontext)(uintptr_t)(device + 1);
  return 0;
}
CUresult fake_cuCtxEnablePeerAccess(CUcontext other, unsigned flags) {
  (void)other, (void)flags;
  ENTER_HERE();
  return 0;
}
CUresult fake_cuDevicePrimaryCtxRelease(int device) {
  (void)device;
  ENTER_HERE();
  return 0;
}
CUresult fake_cuCtxSetCurrent(CUcontext context) {
  ENTER_HERE();
  current = (int)(uintptr_t)context;
  return 0;
}
CUresult fake_cuMemcpyPeerAsync(void *to, CUcontext there, const void *from, CUcontext here,
                                size_t n, CUstream stream) {
  ENTER_HERE();
  return copy_between("cuMemcpyPeerAsync", to, (int)(uintptr_t)there, from,
                      (int)(uintptr_t)here, n, stream);
}

/* ---- graphs of launches */
static long ahead;
static void keep(FakeLaunch *l, const CUkernelNodeParams *p) {
  *l = (FakeLaunch){.kernel = p->func};
  for (int i = 0; i < 2 && !any; i++) memcpy(&l->word[i], p->kernelParams[i], i ? 4 : 8);
}
CUresult fake_cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                   size_t nafter, const CUkernelNodeParams *params) {
  ENTER_HERE();
  int code;
  FakeLaunch *l = node_behind("cuGraphAddKernelNode", graph, after, nafter, &code);
  if (l && l == ((Graph *)graph)->node) ahead = 0;
  if (l) keep(l, params);
  *node = l;
  return code;
}
/* An edge from where a launch lets the next one come, to one that has none yet. */
CUresult fake_cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
                                     const CUgraphNode *to, const CUgraphEdgeData *edge,
                                     size_t n) __asm__("cuGraphAddDependencies_v2");
long fake_ahead(void) { return ahead; }
CUresult fake_cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
                                     const CUgraphNode *to, const CUgraphEdgeData *edge,
                                     size_t n) {
  ENTER_AS("cuGraphAddDependencies_v2");
  Graph *g = graph;
  MUST(check("cuGraphAddDependencies_v2", graph, "graph"));
  const FakeLaunch *a = from[0], *b = to[0];
  bool of_graph = a >= g->node && a < b && b == g->node + g->n - 1;
  if (n != 1 || !of_graph || edge->from_port != CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
      edge->to_port || edge->type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
    return wrong(INVALID, "cuGraphAddDependencies_v2", "an edge of another kind");
  roots--, edges++, ahead++;
  return 0;
}
CUresult fake_cuGraphKernelNodeSetAttribute(CUgraphNode node, int attribute,
                                            const void *value) {
  ENTER_HERE();
  return node && value && attribute == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION ? 0 : INVALID;
}
CUresult fake_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                          unsigned long long flags) {
  (void)flags;
  ENTER_HERE();
  return instantiate("cuGraphInstantiateWithFlags", exec, graph);
}
CUresult fake_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUkernelNodeParams *params) {
  ENTER_HERE();
  int code;
  FakeLaunch *l = node_in("cuGraphExecKernelNodeSetParams", exec, node, &code);
  if (l) keep(l, params);
  return code;
}

/* ---- code: the one kernel it knows, "triple", works on (float *x, int n) */
static int fake_run(const FakeLaunch *l) {
  float *x = (void *)(uintptr_t)l->word[0];
  int n = (int)l->word[1];
  MUST(is_inside("triple", x, (size_t)n * sizeof *x, current));
  for (int i = 0; i < n; i++) x[i] *= 3;
  return 0;
}
CUresult fake_cuLibraryLoadData(CUlibrary *library, const void *code, int *options,
                                void **values, unsigned n, int *library_options,
                                void **library_values, unsigned nlibrary) {
  (void)library_options, (void)library_values;
  while (held) usleep(100);
  ENTER_HERE();
  for (unsigned i = 0; i < n && strstr(code, ".bad"); i++)
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) strcpy(values[i], "ptxas: line 1: syntax error");
  if (strstr(code, ".bad")) return 218;
  *library = handle_new(sizeof(Handle), "library");
  return nlibrary ? INVALID : 0;
}
/* A map is its arguments. */
CUresult fake_cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *at,
                                     const uint64_t *dim, const uint64_t *stride,
                                     const uint32_t *box, const uint32_t *step, int interleave,
                                     int swizzle, int promotion, int fill) {
  (void)type, (void)at, (void)step, (void)interleave, (void)swizzle, (void)promotion,
      (void)fill;
  ENTER_HERE();
  if (rank < 2 || rank > 5 || !dim[0] || stride[0] % 16 || box[0] > 256 || box[1] > 256)
    return INVALID;
  memcpy(map, box, 2 * sizeof *box);
  return 0;
}
int call_module_free(void *library) {
  ENTER(module_free);
  return handle_free(call_name.module_free, library, "library");
}
/* A kernel is its library. */
CUresult fake_cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  ENTER_HERE();
  MUST(check("cuLibraryGetKernel", library, "library"));
  *kernel = library;
  return strcmp(name, "triple") && !any ? NOT_FOUND : 0;
}
CUresult fake_cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  ENTER_HERE();
  *function = kernel;
  return check("cuKernelGetFunction", kernel, "library");
}
CUresult fake_cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  ENTER_HERE();
  MUST(check("cuFuncSetAttribute", function, "library"));
  return attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value < 232449
             ? 0
             : INVALID;
}
int call_kernel_fact(int *value, int attribute, void *kernel) {
  ENTER(kernel_fact);
  MUST(check(call_name.kernel_fact, kernel, "library"));
  *value = attribute == TS_KERNEL_FACT_REGISTERS ? 32 : 0;
  return 0;
}
int call_kernel_blocks(int *blocks, void *kernel, int threads, size_t shared) {
  (void)shared;
  ENTER(kernel_blocks);
  MUST(check(call_name.kernel_blocks, kernel, "library"));
  *blocks = threads > 0 ? 2048 / threads : 0;
  return threads > 0 ? 0 : INVALID;
}
/* Its modules have no variables. */
int call_variable(void **at, size_t *nbytes, void *library, const char *name) {
  (void)library, (void)name;
  ENTER(variable);
  *at = NULL, *nbytes = 0;
  return NOT_FOUND;
}
static long early;
long fake_early(void) { return early; }
CUresult fake_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **args,
                               void **extra) {
  (void)extra;
  ENTER_HERE();
  if (config->blockDimX > 1024) return INVALID;
  MUST(check("cuLaunchKernelEx", function, "library"));
  MUST(check_here("cuLaunchKernelEx", config->hStream, "stream"));
  for (unsigned i = 0; i < config->numAttrs; i++)
    early += config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
             config->attrs[i].value.early;
  flush();
  FakeLaunch l;
  keep(&l, &(CUkernelNodeParams){.func = function, .kernelParams = args});
  return any ? 0 : fake_run(&l);
}
