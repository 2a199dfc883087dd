/* What OpenCL's devices run: queues, events, programs of SPIR-V, launches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/driver/opencl_api.h"
#include "devices/driver/spirv.h"

/* ---- queues and events */
int ts_cl_queue(TsDevice *d, cl_command_queue *out, TsError *err) {
  static const cl_ulong properties[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
  TsCl *s = d->state;
  cl_int code = 0;
  *out = ts_cl.clCreateCommandQueueWithProperties(s->context, s->device, properties, &code);
  return code ? ts_cl_fail(d, code, "clCreateCommandQueueWithProperties", err) : 0;
}

static cl_command_queue queue_of(TsDevice *d, void *stream) {
  return stream ? stream : ((TsCl *)d->state)->of.work;
}

static int stream_new(TsDevice *d, void **stream, TsError *err) {
  TsCl *s = d->state;
  cl_command_queue q = NULL;
  if (s->queues.n == s->queues.room) {
    int room = 2 * s->queues.room + 2;
    cl_command_queue *more = realloc(s->queues.list, sizeof *more * (size_t)room);
    if (!more) return ts_error_memory(err), -1;
    s->queues.list = more, s->queues.room = room;
  }
  if (ts_cl_queue(d, &q, err)) return -1;
  *stream = s->queues.list[s->queues.n++] = q;
  return 0;
}

static void stream_free(TsDevice *d, void *stream) {
  TsCl *s = d->state;
  if (!stream) return;
  for (int i = 0; i < s->queues.n; i++)
    if (s->queues.list[i] == stream) s->queues.list[i--] = s->queues.list[--s->queues.n];
  ts_cl.clReleaseCommandQueue(stream);
}

typedef struct Event {
  cl_event at; /* NULL: nothing was recorded */
} Event;

static int event_new(TsDevice *d, void **event, TsError *err) {
  (void)d;
  *event = calloc(1, sizeof(Event));
  return *event ? 0 : (ts_error_memory(err), -1);
}

static void event_free(TsDevice *d, void *event) {
  Event *e = event;
  (void)d;
  if (e && e->at) ts_cl.clReleaseEvent(e->at);
  free(e);
}

static int event_record(TsDevice *d, void *event, void *stream, TsError *err) {
  Event *e = event;
  cl_event at = NULL;
  TS_CL(d, err, clEnqueueMarkerWithWaitList, queue_of(d, stream), 0, NULL, &at);
  if (e->at) ts_cl.clReleaseEvent(e->at);
  e->at = at;
  TS_CL(d, err, clFlush, queue_of(d, stream)); /* another queue may wait for it */
  return 0;
}

static int stream_wait(TsDevice *d, void *stream, void *event, TsError *err) {
  const Event *e = event;
  if (e->at) TS_CL(d, err, clEnqueueBarrierWithWaitList, queue_of(d, stream), 1, &e->at, NULL);
  return 0;
}

static int event_wait(TsDevice *d, void *event, TsError *err) {
  const Event *e = event;
  if (e->at) TS_CL(d, err, clWaitForEvents, 1, &e->at);
  return 0;
}

static int end_of(TsDevice *d, const Event *e, cl_ulong *nsec, TsError *err) {
  if (!e->at) return ts_error_set(err, TS_ERR_device, "%s: an event without a time", d->name);
  TS_CL(d, err, clWaitForEvents, 1, &e->at);
  TS_CL(d, err, clGetEventProfilingInfo, e->at, CL_PROFILING_COMMAND_END, sizeof *nsec, nsec,
        NULL);
  return 0;
}

static int event_usec(TsDevice *d, void *from, void *to, double *usec, TsError *err) {
  cl_ulong a = 0, b = 0;
  if (end_of(d, from, &a, err) || end_of(d, to, &b, err)) return -1;
  *usec = ((double)b - (double)a) * 1e-3;
  return 0;
}

/* ---- programs */
typedef struct Module {
  cl_program program;
  cl_kernel *kernel; /* that were asked for: they end with it */
  int nkernel;
} Module;

static int refused(TsDevice *d, cl_program p, cl_int code, TsError *err) {
  TsCl *s = d->state;
  size_t n = 0;
  ts_cl_fail(d, code, "clBuildProgram", err);
  size_t at = strlen(err->message), room = sizeof err->message - at;
  if (ts_cl.clGetProgramBuildInfo(p, s->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &n) || n < 2)
    return -1;
  char *log = calloc(1, n + 1);
  if (log && !ts_cl.clGetProgramBuildInfo(p, s->device, CL_PROGRAM_BUILD_LOG, n, log, NULL))
    snprintf(err->message + at, room, "\n%s", log);
  free(log);
  return -1;
}

/* With functions in OpenCL C that the code calls and the driver lacks. */
static cl_int link_with(TsCl *s, const char *text, const char *options, cl_program *p) {
  cl_int failed = 0;
  cl_program part[2] = {*p};
  part[1] = ts_cl.clCreateProgramWithSource(s->context, 1, &text, NULL, &failed);
  for (int i = 0; i < 2 && !failed; i++)
    failed = ts_cl.clCompileProgram(part[i], 1, &s->device, options, 0, NULL, NULL, NULL, NULL);
  cl_program all = failed ? NULL
                          : ts_cl.clLinkProgram(s->context, 1, &s->device, options, 2, part,
                                                NULL, NULL, &failed);
  if (part[1]) ts_cl.clReleaseProgram(part[1]);
  if (!all) return failed;
  ts_cl.clReleaseProgram(*p);
  *p = all;
  return failed;
}

/* Intel's compiler for CPUs, of 2026, is wrong about kernels in which threads meet: values
 * known before are 0 behind it, or the process ends (its pass
 * sycl-kernel-reduce-cross-barrier-values, and others of its optimiser, on the gradient of
 * layernorm). Without the optimiser, and with such values in memory (jit/compile/gpu.c), it is
 * right, and takes a tenth of the time. Sub-groups, which nobody asks a CPU for but tests, are
 * made by it. */
static const char *options_of(TsDevice *d, bool large) {
  const TsCl *s = d->state;
  const char *own = getenv("TESSERA_OPENCL_OPTIONS"); /* for tests */
  if (own) return own;
  if (s->cpu && ts_target_of(d)->lanes == 1) return "-cl-opt-disable";
  if (large && !s->cpu)
    return s->exact ? "-cl-fp32-correctly-rounded-divide-sqrt -cl-intel-256-GRF-per-thread"
                    : "-cl-intel-256-GRF-per-thread";
  return s->exact ? "-cl-fp32-correctly-rounded-divide-sqrt" : "";
}

static cl_program build(TsDevice *d, const void *code, size_t nbytes, TsError *err) {
  TsCl *s = d->state;
  const char *more = getenv("TESSERA_OPENCL_FUNCTIONS"); /* compilers lack the matrix unit's */
  const char *options = options_of(d, ts_spirv_wants_large(code, nbytes));
  cl_int failed = 0;
  cl_program p = ts_cl.clCreateProgramWithIL(s->context, code, nbytes, &failed);
  if (failed) return ts_cl_fail(d, failed, "clCreateProgramWithIL", err), NULL;
  failed = more ? link_with(s, more, options, &p)
                : ts_cl.clBuildProgram(p, 1, &s->device, options, NULL, NULL);
  if (!failed) return p;
  refused(d, p, failed, err);
  ts_cl.clReleaseProgram(p);
  return NULL;
}

static int module_new(TsDevice *d, const void *code, size_t nbytes, void **module,
                      TsError *err) {
  if (!((TsCl *)d->state)->f64 && ts_spirv_wants_f64(code, nbytes))
    return ts_error_set(err, TS_ERR_device, "%s has no f64", d->name);
  Module *m = calloc(1, sizeof *m);
  if (!m) return ts_error_memory(err), -1;
  if (!(m->program = build(d, code, nbytes, err))) return free(m), -1;
  *module = m;
  return 0;
}

static void module_free(TsDevice *d, void *module) {
  Module *m = module;
  (void)d;
  if (!m) return;
  for (int i = 0; i < m->nkernel; i++) ts_cl.clReleaseKernel(m->kernel[i]);
  ts_cl.clReleaseProgram(m->program);
  free(m->kernel), free(m);
}

static int kernel_find(TsDevice *d, void *module, const char *name, int shared, void **kernel,
                       TsError *err) {
  Module *m = module;
  cl_int code = 0;
  (void)shared;
  cl_kernel *more = realloc(m->kernel, sizeof *more * (size_t)(m->nkernel + 1));
  if (!more) return ts_error_memory(err), -1;
  m->kernel = more;
  cl_kernel k = ts_cl.clCreateKernel(m->program, name, &code);
  if (code) return ts_cl_fail(d, code, "clCreateKernel", err);
  *kernel = m->kernel[m->nkernel++] = k;
  return 0;
}

/* ---- launches */
static int set_args(TsDevice *d, const TsLaunch *l, TsError *err) {
  TsCl *s = d->state;
  cl_uint i = 0;
  for (; i < (cl_uint)l->pointers; i++) {
    const void *at = *(void *const *)l->args[i];
    cl_int code = s->memory.clSetKernelArgMemPointerINTEL(l->kernel, i, at);
    if (code) return ts_cl_fail(d, code, "clSetKernelArgMemPointerINTEL", err);
  }
  for (; i < (cl_uint)(l->pointers + l->words); i++)
    TS_CL(d, err, clSetKernelArg, l->kernel, i, sizeof(uint64_t), l->args[i]);
  return 0;
}

static int launch(TsDevice *d, const TsLaunch *l, TsError *err) {
  size_t global[3], local[3];
  for (int i = 0; i < 3; i++) {
    local[i] = l->block[i];
    global[i] = (size_t)l->grid[i] * l->block[i];
  }
  if (set_args(d, l, err)) return -1;
  d->queued++;
  d->dependent = false;
  TS_CL(d, err, clEnqueueNDRangeKernel, queue_of(d, l->stream), l->kernel, 3, NULL, global,
        local, 0, NULL, NULL);
  TS_CL(d, err, clFlush, queue_of(d, l->stream)); /* it begins while the host goes on */
  return 0;
}

const TsDeviceRun ts_cl_run = {.stream_new = stream_new,
                               .stream_free = stream_free,
                               .stream_wait = stream_wait,
                               .event_new = event_new,
                               .event_free = event_free,
                               .event_record = event_record,
                               .event_wait = event_wait,
                               .event_usec = event_usec,
                               .module_new = module_new,
                               .module_free = module_free,
                               .kernel = kernel_find,
                               .launch = launch,
                               .hold = ts_driver_hold};
