/* Scratch memory: malloc that tests can make fail. */
#include "vm/scratch.h"

#include <stdlib.h>

#include "devices/cpu_pool.h"
#include "devices/memory.h"

enum { LINE = 64, PAGE = 4096 };

static int64_t alignment(int64_t nbytes) { return nbytes < PAGE ? LINE : PAGE; }

/* Whole units of `align`, one at least. */
static int64_t whole(int64_t nbytes, int64_t align) {
  return nbytes ? (nbytes + align - 1) / align * align : align;
}

void *ts_scratch_take(int64_t nbytes) {
  if (nbytes < 0 || ts_memory_should_fail()) return NULL;
  int64_t align = alignment(nbytes);
  return aligned_alloc((size_t)align, (size_t)whole(nbytes, align));
}

int ts_scratch_open(TsScratch *s, int64_t nbytes) {
  s->step = whole(nbytes, alignment(nbytes));
  s->at = ts_scratch_take(s->step * ts_cpu_threads());
  return s->at ? 0 : -1;
}

int ts_scratch_failed(const TsCall *call) {
  return ts_error_set(&call->ctx->err, TS_ERR_memory, "%s: out of memory",
                      ts_op_info(call->op)->name);
}
