/* OpenCL's devices that take SPIR-V: Intel's GPUs, and any CPU that has a runtime. They are
 * looked for when somebody names one, since the libraries of a machine's makers are loaded
 * then; and nothing moves there by itself. A device must have memory at addresses
 * (cl_intel_unified_shared_memory), and f32 as IEEE has it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/driver/opencl_api.h"
#include "devices/driver/spirv.h"
#include "lib/activity.h"

TsClApi ts_cl;

static char missing[240];
static TsCl found[TS_MAX_DEVICES];
static int nfound;

#define CALL(name, result, args) {#name, offsetof(TsClApi, name)},
static const TsDriverSymbol symbols[] = {TS_CL_CALLS(CALL)};
#undef CALL
#define CALL(name, result, args) {#name, offsetof(TsClMemoryApi, name)},
static const TsDriverSymbol memory_symbols[] = {TS_CL_MEMORY_CALLS(CALL)};
#undef CALL

/* ---- errors */
const char *ts_cl_text(cl_int code) {
  static const struct {
    int code;
    const char *text;
  } row[] = {
      {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND"},
      {-2, "CL_DEVICE_NOT_AVAILABLE"},
      {-3, "CL_COMPILER_NOT_AVAILABLE"},
      {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
      {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
      {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
      {-7, "CL_PROFILING_INFO_NOT_AVAILABLE"},
      {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
      {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
      {-30, "CL_INVALID_VALUE"},
      {-33, "CL_INVALID_DEVICE"},
      {-34, "CL_INVALID_CONTEXT"},
      {-36, "CL_INVALID_COMMAND_QUEUE"},
      {-42, "CL_INVALID_BINARY"},
      {-43, "CL_INVALID_BUILD_OPTIONS"},
      {-44, "CL_INVALID_PROGRAM"},
      {-45, "CL_INVALID_PROGRAM_EXECUTABLE"},
      {-46, "CL_INVALID_KERNEL_NAME"},
      {-48, "CL_INVALID_KERNEL"},
      {-49, "CL_INVALID_ARG_INDEX"},
      {-50, "CL_INVALID_ARG_VALUE"},
      {-51, "CL_INVALID_ARG_SIZE"},
      {-52, "CL_INVALID_KERNEL_ARGS"},
      {-54, "CL_INVALID_WORK_GROUP_SIZE"},
      {-55, "CL_INVALID_WORK_ITEM_SIZE"},
      {-58, "CL_INVALID_EVENT"},
      {-59, "CL_INVALID_OPERATION"},
      {-61, "CL_INVALID_BUFFER_SIZE"},
      {-63, "CL_INVALID_GLOBAL_WORK_SIZE"},
      {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (row[i].code == code) return row[i].text;
  return "an error without a name";
}

int ts_cl_fail(TsDevice *d, cl_int code, const char *call, TsError *err) {
  return ts_error_set(err, TS_ERR_device, "%s: %s: %s (%d)", d->name, call, ts_cl_text(code),
                      code);
}

/* ---- what there is */
static bool load(void) {
  static const char *const names[] = {"libOpenCL.so.1", NULL};
  const TsDriverLibrary l = {"no OpenCL", "TESSERA_LIBOPENCL", names[0], names};
  void *library = ts_driver_library(&l, missing, sizeof missing);
  if (!library) return false;
  const char *none =
      ts_driver_symbols(library, sizeof symbols / sizeof *symbols, symbols, &ts_cl);
  if (none)
    snprintf(missing, sizeof missing, "this machine's OpenCL has no %s: 2.1 is needed", none);
  return !none;
}

static cl_ulong number(cl_device_id d, cl_uint what) {
  cl_ulong v = 0; /* shorter ones are its first bytes */
  return ts_cl.clGetDeviceInfo(d, what, sizeof v, &v, NULL) ? 0 : v;
}

/* "" if there is none. */
static void words(cl_device_id d, cl_uint what, char *text, size_t room) {
  size_t n = 0;
  text[0] = 0;
  if (!ts_cl.clGetDeviceInfo(d, what, room - 1, text, &n)) text[n < room ? n : room - 1] = 0;
}

static bool has(const char *extensions, const char *name) {
  size_t n = strlen(name);
  for (const char *at = extensions; (at = strstr(at, name)); at += n)
    if ((at == extensions || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
  return false;
}

static bool find_memory(TsCl *s) {
  for (size_t i = 0; i < sizeof memory_symbols / sizeof *memory_symbols; i++) {
    void *f =
        ts_cl.clGetExtensionFunctionAddressForPlatform(s->platform, memory_symbols[i].name);
    if (!f) return false;
    memcpy((char *)&s->memory + memory_symbols[i].at, &f, sizeof f);
  }
  return true;
}

/* What it lacks, or NULL. */
static const char *lacks(TsCl *s, const char *extensions) {
  char il[200];
  words(s->device, CL_DEVICE_IL_VERSION, il, sizeof il);
  if (!strstr(il, "SPIR-V_1.")) return "takes no SPIR-V";
  if (!has(extensions, "cl_intel_unified_shared_memory") || !find_memory(s))
    return "has no cl_intel_unified_shared_memory";
  if (!(number(s->device, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_DENORM))
    return "has f32 without denormals";
  if (!s->exact && !s->f64) return "has neither exact division of f32 nor f64";
  return NULL;
}

/* Sub-groups of a size are asked for where they can be. */
static bool has_groups(const TsCl *s, const char *extensions, size_t lanes) {
  size_t size[16] = {0}, n = 0;
  if (!has(extensions, "cl_intel_subgroups") ||
      !has(extensions, "cl_intel_required_subgroup_size") ||
      ts_cl.clGetDeviceInfo(s->device, CL_DEVICE_SUB_GROUP_SIZES_INTEL, sizeof size, size, &n))
    return false;
  for (size_t i = 0; i < n / sizeof *size; i++)
    if (size[i] == lanes) return true;
  return false;
}

/* A list that a device tells, and of how many bytes; NULL: none. */
static void *list_of(cl_device_id d, cl_uint what, size_t *n) {
  if (ts_cl.clGetDeviceInfo(d, what, 0, NULL, n) || !*n) return NULL;
  void *list = calloc(1, *n);
  if (list && !ts_cl.clGetDeviceInfo(d, what, *n, list, NULL)) return list;
  free(list);
  return NULL;
}

/* What modules may be made of, as the driver lists it (cl_khr_spirv_queries). */
static bool takes_extension(cl_device_id d, const char *name) {
  size_t n = 0;
  bool takes = false;
  const char **list = list_of(d, CL_DEVICE_SPIRV_EXTENSIONS_KHR, &n);
  for (size_t i = 0; list && i < n / sizeof *list; i++)
    takes |= list[i] && !strcmp(list[i], name);
  free(list);
  return takes;
}

static bool takes_capability(cl_device_id d, cl_uint capability) {
  size_t n = 0;
  bool takes = false;
  cl_uint *list = list_of(d, CL_DEVICE_SPIRV_CAPABILITIES_KHR, &n);
  for (size_t i = 0; list && i < n / sizeof *list; i++) takes |= list[i] == capability;
  free(list);
  return takes;
}

/* Which sizes it multiplies no query of OpenCL's tells: whether its compiler takes those that
 * kernels have. */
static bool takes_probe(const TsCl *s) {
  uint32_t word[TS_SPIRV_PROBE_WORDS];
  cl_int code = 0;
  cl_context context = ts_cl.clCreateContext(NULL, 1, &s->device, NULL, NULL, &code);
  if (code) return false;
  cl_program p = ts_cl.clCreateProgramWithIL(context, word, ts_spirv_probe(word), &code);
  if (!code) code = ts_cl.clBuildProgram(p, 1, &s->device, "", NULL, NULL);
  if (p) ts_cl.clReleaseProgram(p);
  ts_cl.clReleaseContext(context);
  return !code;
}

static bool has_cooperative(const TsCl *s, const char *extensions) {
  enum { MATRIX = 6022, MATRIX_BF16 = 5118, LANES = 16 }; /* capabilities */
  cl_device_id d = s->device;
  return has(extensions, "cl_khr_spirv_queries") && has_groups(s, extensions, LANES) &&
         takes_extension(d, "SPV_KHR_cooperative_matrix") && takes_capability(d, MATRIX) &&
         takes_extension(d, "SPV_KHR_bfloat16") && takes_capability(d, MATRIX_BF16) &&
         takes_probe(s);
}

/* On a CPU sub-groups are a compiler's business. */
static const TsTarget *target_of(const TsCl *s, const char *extensions) {
  enum { WARP = 32 };
  TsSpirvDevice d = {.f64 = s->f64,
                     .cpu = s->cpu,
                     .half = has(extensions, "cl_khr_fp16"),
                     .warps = !s->cpu && s->exact && has_groups(s, extensions, WARP),
                     .cooperative = has_cooperative(s, extensions),
                     .shared = (int64_t)number(s->device, CL_DEVICE_LOCAL_MEM_SIZE),
                     .threads = (int64_t)number(s->device, CL_DEVICE_MAX_WORK_GROUP_SIZE)};
  return ts_spirv_target(&d);
}

static char *extensions_of(cl_device_id d) {
  size_t n = 0;
  if (ts_cl.clGetDeviceInfo(d, CL_DEVICE_EXTENSIONS, 0, NULL, &n)) return NULL;
  char *text = calloc(1, n + 1);
  if (text) ts_cl.clGetDeviceInfo(d, CL_DEVICE_EXTENSIONS, n, text, NULL);
  return text;
}

static bool has_clock(const TsCl *s, const char *extensions) {
  return has(extensions, "cl_khr_kernel_clock") &&
         (number(s->device, CL_DEVICE_KERNEL_CLOCK_CAPABILITIES) &
          CL_KERNEL_CLOCK_SCOPE_DEVICE);
}

static const TsTarget *target[TS_MAX_DEVICES];

static void look_at(cl_platform_id platform, cl_device_id device) {
  TsCl *s = &found[nfound];
  char *extensions = extensions_of(device);
  if (!extensions) return;
  *s = (TsCl){.of.driver = &ts_cl_driver, .platform = platform, .device = device};
  words(device, CL_DEVICE_NAME, s->of.model, sizeof s->of.model);
  s->of.total = number(device, CL_DEVICE_GLOBAL_MEM_SIZE);
  s->cpu = number(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU;
  s->exact = number(device, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
  s->f64 = number(device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  const char *why = lacks(s, extensions);
  target[nfound] = why ? NULL : target_of(s, extensions);
  s->clock = has_clock(s, extensions);
  if (!why && !target[nfound]) why = "has less than 68 KiB of memory for a block";
  if (why)
    snprintf(missing, sizeof missing, "OpenCL's device '%s' %s", s->of.model, why);
  else
    nfound++;
  free(extensions);
}

/* GPUs come first: opencl:0 is one where there is one. */
static void look(void) {
  cl_platform_id platform[TS_MAX_DEVICES];
  cl_device_id all[TS_MAX_DEVICES];
  cl_uint n = 0;
  cl_int code = ts_cl.clGetPlatformIDs(TS_MAX_DEVICES, platform, &n);
  if (code || !n) {
    snprintf(missing, sizeof missing, "OpenCL has no driver here (clGetPlatformIDs: %s, %d)",
             code ? ts_cl_text(code) : "no platform", code);
    return;
  }
  snprintf(missing, sizeof missing, "OpenCL has no device here");
  for (int gpu = 1; gpu >= 0; gpu--)
    for (cl_uint i = 0; i < n && i < TS_MAX_DEVICES; i++) {
      cl_uint m = 0;
      if (ts_cl.clGetDeviceIDs(platform[i], CL_DEVICE_TYPE_ALL, TS_MAX_DEVICES, all, &m))
        continue;
      for (cl_uint k = 0; k < m && k < TS_MAX_DEVICES && nfound < TS_MAX_DEVICES; k++)
        if (!(number(all[k], CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU) == !gpu)
          look_at(platform[i], all[k]);
    }
}

int ts_opencl_count(const char **why) {
  static bool done;
  if (!done && load()) look();
  done = true;
  *why = nfound ? NULL : missing;
  return nfound;
}

/* ---- one device */
static void undo(TsCl *s) {
  if (s->of.work) ts_cl.clReleaseCommandQueue(s->of.work);
  if (s->context) ts_cl.clReleaseContext(s->context);
  s->of.work = NULL, s->context = NULL;
}

/* All or nothing, so that the next use can try again. */
static int opencl_open(TsDevice *d, TsError *err) {
  TsCl *s = d->state;
  cl_int code = 0;
  if (!s->of.pool && !(s->of.pool = ts_driver_pool_new(&s->of)))
    return ts_error_set(err, TS_ERR_memory, "out of memory: opening %s", d->name);
  s->context = ts_cl.clCreateContext(NULL, 1, &s->device, NULL, NULL, &code);
  if (code) return ts_cl_fail(d, code, "clCreateContext", err);
  cl_command_queue work = NULL;
  if (!ts_cl_queue(d, &work, err)) return s->of.work = work, 0;
  undo(s);
  return -1;
}

/* All queues: a stream may have work that the device's own order does not wait for. */
static int opencl_synchronize(TsDevice *d, TsError *err) {
  const TsCl *s = d->state;
  TsActivity *w = ts_activity_begin(TS_ACTIVITY_wait, d->name, NULL);
  cl_int code = ts_cl.clFinish(s->of.work);
  for (int i = 0; i < s->queues.n && !code; i++) code = ts_cl.clFinish(s->queues.list[i]);
  ts_activity_end(w, 0, 0);
  return code ? ts_cl_fail(d, code, "clFinish", err) : 0;
}

static void opencl_describe(TsDevice *d, char *text, int size) {
  const TsCl *s = d->state;
  int n = snprintf(text, (size_t)size, "%s, OpenCL, %d units, %.2f GHz, %.1f GiB, code of %s",
                   s->of.model, d->processors, d->clock * 1e-9, (double)s->of.total / (1 << 30),
                   ts_target_of(d)->name);
  if (n >= size) return;
  text += n, size -= n;
  if (!d->opened)
    snprintf(text, (size_t)size, "; not used yet");
  else
    snprintf(text, (size_t)size, "; %.1f MiB in tensors, %.1f at most, %.1f cached",
             (double)d->live / 1048576, (double)d->peak / 1048576,
             (double)ts_driver_cached(d) / 1048576);
}

void ts_opencl_device(TsDevice *d) {
  int i = atoi(strchr(d->name, ':') + 1);
  TsCl *s = &found[i];
  d->state = s;
  d->target = target[i];
  d->processors = (int)number(s->device, CL_DEVICE_MAX_COMPUTE_UNITS);
  d->clock = 1e6 * (double)number(s->device, CL_DEVICE_MAX_CLOCK_FREQUENCY);
  if (!s->clock)
    d->no_clock = "its driver has no cl_khr_kernel_clock (ShaderClockKHR of SPIR-V)";
  d->runs_kernels = d->only_named = true;
  d->open = opencl_open;
  d->alloc = ts_driver_alloc;
  d->free = ts_driver_free;
  d->trim = ts_driver_trim;
  d->upload = ts_cl_upload;
  d->download = ts_cl_download;
  d->copy = ts_cl_copy;
  d->synchronize = opencl_synchronize;
  d->describe = opencl_describe;
  d->run = &ts_cl_run;
}
