/* Scratch memory: malloc that tests can make fail. */
#include "vm/scratch.h"

#include <stdlib.h>

#include "devices/cpu_pool.h"
#include "devices/memory.h"

void *ts_scratch_take(int64_t nbytes) {
  if (nbytes < 0 || ts_memory_should_fail()) return NULL;
  return malloc(nbytes ? (size_t)nbytes : 1);
}

int ts_scratch_open(TsScratch *s, int64_t nbytes) {
  enum { LINE = 64 }; /* workers share no cache line */
  s->step = (nbytes + LINE - 1) / LINE * LINE + LINE;
  s->at = ts_scratch_take(s->step * ts_cpu_threads());
  return s->at ? 0 : -1;
}

int ts_scratch_failed(const TsCall *call) {
  return ts_error_set(&call->ctx->err, TS_ERR_memory, "%s: out of memory",
                      ts_op_info(call->op)->name);
}
