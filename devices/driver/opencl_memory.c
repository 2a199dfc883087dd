/* Memory of OpenCL's devices, and bytes between it and the host. Blocks are those of all GPUs'
 * allocator (devices/driver/memory.c), which asks for them here. */
#include <stdlib.h>

#include "devices/driver/opencl_api.h"

/* The thread's device: ts_driver_enter says which one. */
static TsCl *here(void) { return (TsCl *)(uintptr_t)ts_driver_current; }

static int enter(TsDevice *d, TsError *err) { return (void)d, (void)err, 0; }

/* Several codes say that memory is out. */
static int cl_alloc(void **at, size_t nbytes) {
  enum { ALIGN = 128 /* bytes; OpenCL's largest vector */ };
  const TsCl *s = here();
  cl_int code = 0;
  *at = s->memory.clDeviceMemAllocINTEL(s->context, s->device, NULL, nbytes, ALIGN, &code);
  bool full = code == CL_OUT_OF_RESOURCES || code == CL_OUT_OF_HOST_MEMORY ||
              code == CL_INVALID_BUFFER_SIZE || (!code && !*at);
  return full ? CL_MEM_OBJECT_ALLOCATION_FAILURE : code;
}

/* Waits for what uses it. */
static int cl_free(void *at) {
  const TsCl *s = here();
  return s->memory.clMemBlockingFreeINTEL(s->context, at);
}

static int stream_wait(void *stream) { return stream ? ts_cl.clFinish(stream) : 0; }

/* Others' memory is not asked for. */
static int room(size_t *nfree, size_t *total) {
  *nfree = *total = here()->of.total;
  return 0;
}

static bool is_fatal(int code) { return (void)code, false; }

static void say(int code, const char **name, const char **text) {
  *name = ts_cl_text(code);
  *text = "no text";
}

const TsDriver ts_cl_driver = {.alloc = cl_alloc,
                               .free = cl_free,
                               .stream_wait = stream_wait,
                               .room = room,
                               .name = {.alloc = "clDeviceMemAllocINTEL",
                                        .free = "clMemBlockingFreeINTEL",
                                        .stream_wait = "clFinish"},
                               .full = CL_MEM_OBJECT_ALLOCATION_FAILURE,
                               .is_fatal = is_fatal,
                               .say = say,
                               .enter = enter};

/* ---- bytes */
static int copy(TsDevice *d, bool wait, void *to, const void *from, int64_t nbytes,
                TsError *err) {
  TsCl *s = d->state;
  if (nbytes == 0) return 0;
  d->queued++;
  d->dependent = false;
  cl_int code =
      s->memory.clEnqueueMemcpyINTEL(s->of.work, wait, to, from, (size_t)nbytes, 0, NULL, NULL);
  return code ? ts_cl_fail(d, code, "clEnqueueMemcpyINTEL", err) : 0;
}

int ts_cl_upload(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err) {
  return copy(d, true, to, from, nbytes, err);
}

int ts_cl_download(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err) {
  return copy(d, true, to, from, nbytes, err);
}

/* Between two devices they go through the host. */
int ts_cl_copy(TsDevice *d, void *to, TsDevice *source, const void *from, int64_t nbytes,
               TsError *err) {
  if (d != source) return ts_device_copy_by_host(d, to, source, from, nbytes, err);
  return copy(d, false, to, from, nbytes, err);
}
