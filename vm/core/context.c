/* Contexts. */
#include "vm/core/context.h"

#include <stdlib.h>

#include "vm/core/region.h"
#include "vm/core/snapshot.h"
#include "vm/core/tape.h"

TsContext *ts_context_open(void) {
  TsContext *c = calloc(1, sizeof *c);
  uint64_t *ring = malloc(TS_TRACE_WORDS * sizeof *ring);
  if (!c || !ring) {
    free(c);
    free(ring);
    return NULL;
  }
  c->trace.word = ring;
  c->next_id = 1;
  c->device_auto = true;
  c->profile = TS_PROFILE_deterministic;
  c->k = ts_kernels_use(getenv("TESSERA_ISA"));
  if (!c->k) c->k = ts_kernels_use(NULL);
  return c;
}

TsAside ts_context_aside(TsContext *c) {
  TsAside was = {c->capture, c->trap, c->watched, c->device};
  c->capture = NULL, c->trap = c->watched = false, c->device = 0;
  c->no_grad++, c->inside++;
  return was;
}

void ts_context_resume(TsContext *c, TsAside was) {
  c->no_grad--, c->inside--;
  c->capture = was.capture, c->trap = was.trap, c->watched = was.watched,
  c->device = was.device;
}

bool ts_context_once_more(TsContext *c) {
  if (c->err.code != TS_ERR_memory || !c->collect) return false;
  ts_error_clear(&c->err);
  ts_snapshot_tidy();
  c->collect(c->where_arg, true);
  return true;
}

void ts_context_close(TsContext *c) {
  if (!c) return;
  ts_region_free_all(c);
  ts_tape_close(c);
  free(c->trace.word);
  free(c);
}
