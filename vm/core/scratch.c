/* Work memory in parts, and as an error of a call. */
#include "vm/core/scratch.h"

#include "devices/cpu_pool.h"

enum { LINE = 64, PAGE = 4096 };

/* Whole units of what ts_work_take aligns to, one at least. */
static int64_t whole(int64_t nbytes) {
  int64_t align = nbytes < PAGE ? LINE : PAGE;
  return nbytes ? (nbytes + align - 1) / align * align : align;
}

int ts_scratch_open(TsScratch *s, int64_t nbytes) {
  s->step = whole(nbytes);
  s->at = ts_work_take(s->step * ts_cpu_threads());
  return s->at ? 0 : -1;
}

void ts_scratch_close(TsScratch *s) { ts_work_give(s->at); }

int ts_scratch_failed(const TsCall *call) {
  return ts_error_set(&call->ctx->err, TS_ERR_memory, "%s: out of memory",
                      ts_op_info(call->op)->name);
}
