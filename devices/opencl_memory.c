/* Memory of OpenCL's devices, and bytes between it and the host.
 *
 * A block that is freed is kept and may be handed out again at once, as everything on a device
 * is in one order; sizes are rounded up to 1/8 of their power of two, so that few differ. What
 * goes back to the driver waits for the device, so no more does than what is above the most
 * that the program ever had, and a little. */
#include <stdlib.h>
#include <string.h>

#include "devices/memory.h"
#include "devices/opencl_api.h"

enum {
  LEAST = 256,
  NCLASS = 448,      /* eight a doubling */
  ALIGN = 128,       /* bytes; OpenCL's largest vector */
  RESERVE = 64 << 20 /* bytes that may always stay cached */
};

typedef struct Kept {
  struct Kept *next;
  void *at;
} Kept;

struct TsClPool {
  Kept *of[NCLASS];
  Kept *spare; /* nodes without a block */
  int64_t cached;
  bool hold; /* nothing goes back: launches that use it are still to come */
};

struct TsClPool *ts_cl_pool_new(void) {
  return calloc(1, sizeof(struct TsClPool));
}

int64_t ts_cl_cached(const TsDevice *d) {
  const TsCl *s = d->state;
  return s->pool ? s->pool->cached : 0;
}

static int64_t size_of(int64_t nbytes, int *class) {
  int64_t n = nbytes < LEAST ? LEAST : nbytes;
  int top = 63 - __builtin_clzll((uint64_t)n);
  int64_t step = (int64_t)1 << (top - 3);
  n = (n + step - 1) / step * step;
  top = 63 - __builtin_clzll((uint64_t)n);
  *class = (top - 8) * 8 + (int)((n >> (top - 3)) & 7);
  return n;
}

static void give_back(TsCl *s, void *at) { s->memory.clMemBlockingFreeINTEL(s->context, at); }

void ts_cl_trim(TsDevice *d) {
  TsCl *s = d->state;
  struct TsClPool *p = s->pool;
  if (!p || p->hold) return;
  for (int c = 0; c < NCLASS; c++)
    for (Kept *k; (k = p->of[c]);) {
      give_back(s, k->at);
      p->of[c] = k->next;
      k->next = p->spare, p->spare = k;
    }
  p->cached = 0;
}

void ts_cl_hold(TsDevice *d, bool on) { ((TsCl *)d->state)->pool->hold = on; }

static void *ask(TsDevice *d, int64_t nbytes, cl_int *code) {
  TsCl *s = d->state;
  if (ts_memory_should_fail()) return *code = CL_MEM_OBJECT_ALLOCATION_FAILURE, NULL;
  return s->memory.clDeviceMemAllocINTEL(s->context, s->device, NULL, (size_t)nbytes, ALIGN,
                                         code);
}

void *ts_cl_alloc(TsDevice *d, int64_t nbytes, TsError *err) {
  struct TsClPool *p = ((TsCl *)d->state)->pool;
  int c;
  int64_t size = size_of(nbytes, &c);
  Kept *k = p->of[c];
  void *at = k ? k->at : NULL;
  cl_int code = 0;
  if (k) {
    p->of[c] = k->next, p->cached -= size;
    k->next = p->spare, p->spare = k;
  } else if (!(at = ask(d, size, &code)) || code) {
    ts_cl_trim(d);
    at = ask(d, size, &code);
  }
  if (!at || code) {
    if (code != CL_MEM_OBJECT_ALLOCATION_FAILURE && code != CL_OUT_OF_RESOURCES &&
        code != CL_OUT_OF_HOST_MEMORY && code != CL_INVALID_BUFFER_SIZE)
      return ts_cl_fail(d, code, "clDeviceMemAllocINTEL", err), NULL;
    ts_device_full(d, nbytes, err);
    return ts_error_hint(err, "drop tensors that are not needed (x = nil), or keep some on "
                              "the CPU"),
           NULL;
  }
  d->live += nbytes;
  if (d->live > d->peak) d->peak = d->live;
  return at;
}

static bool keep(struct TsClPool *p, int c, void *at) {
  Kept *k = p->spare;
  if (k)
    p->spare = k->next;
  else if (!(k = malloc(sizeof *k)))
    return false;
  *k = (Kept){p->of[c], at};
  p->of[c] = k;
  return true;
}

void ts_cl_free(TsDevice *d, void *at, int64_t nbytes) {
  TsCl *s = d->state;
  struct TsClPool *p = s->pool;
  int c;
  int64_t size = size_of(nbytes, &c);
  d->live -= nbytes;
  bool room = p->hold || d->live + p->cached + size <= d->peak + RESERVE;
  if (room && keep(p, c, at)) {
    p->cached += size;
    return;
  }
  if (!p->hold) give_back(s, at); /* else it is lost */
}

/* ---- bytes */
static int copy(TsDevice *d, bool wait, void *to, const void *from, int64_t nbytes,
                TsError *err) {
  TsCl *s = d->state;
  if (nbytes == 0) return 0;
  d->queued++;
  d->dependent = false;
  cl_int code =
      s->memory.clEnqueueMemcpyINTEL(s->work, wait, to, from, (size_t)nbytes, 0, NULL, NULL);
  return code ? ts_cl_fail(d, code, "clEnqueueMemcpyINTEL", err) : 0;
}

int ts_cl_upload(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err) {
  return copy(d, true, to, from, nbytes, err);
}

int ts_cl_download(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err) {
  return copy(d, true, to, from, nbytes, err);
}

/* Of another device it goes through the host. */
static int copy_by_host(TsDevice *d, void *to, TsDevice *source, const void *from,
                        int64_t nbytes, TsError *err) {
  void *meanwhile = malloc((size_t)nbytes);
  if (!meanwhile) return ts_error_memory(err), -1;
  int failed = source->download(source, meanwhile, from, nbytes, err) ||
               ts_cl_upload(d, to, meanwhile, nbytes, err);
  free(meanwhile);
  return failed ? -1 : 0;
}

int ts_cl_copy(TsDevice *d, void *to, TsDevice *source, const void *from, int64_t nbytes,
               TsError *err) {
  if (nbytes == 0) return 0;
  if (d != source) return copy_by_host(d, to, source, from, nbytes, err);
  return copy(d, false, to, from, nbytes, err);
}
