/* An edited kernel runs as machine code only when it is known to touch what is its own.
 *
 * The interpreter refuses positions outside of memory, waits that never end and arrivals too many. It
 * need not compute: what positions and ways depend on is enough, so that a product of a thousand
 * rows is a matter of milliseconds. Where no element of memory is among that, every later run goes the
 * same way, whatever it is given. A kernel in which data decides although it does not in the usual
 * one is refused: its next arguments could lead it anywhere. */
#include <stdlib.h>

#include "devices/cpu_pool.h"
#include "ir/tile/debug/debug.h"
#include "ir/tile/run/run.h"
#include "jit/patch/state.h"
#include "lib/clock.h"

enum { PATIENCE_MSEC = 20000, LOOKED_MSEC = 3000 };

bool ts_patch_late(void *until_msec) {
  return ts_cpu_interrupted() || ts_clock_msec() > *(double *)until_msec;
}

/* Sizes that are other numbers in other runs. */
static unsigned varying(const TsSchedKernel *k) {
  unsigned sizes = 0;
  for (int i = 0; i < k->ndraw; i++) sizes |= 3u << k->draw[i].dim;
  for (int i = 0; i < k->tile->ndim; i++)
    if (k->number[i] || k->attr[i]) sizes |= 1u << i;
  return sizes;
}

static const TsTileStmt *led_by_data(const TsSchedKernel *k, const TsTile *t, TsError *err) {
  unsigned char *decides = ts_tile_decides(t);
  if (!decides) return ts_error_memory(err), NULL;
  const TsTileStmt *s = ts_tile_data_decides(t, decides, varying(k));
  free(decides);
  return s;
}

/* Roles side by side: who waits for whom is looked at, too, in the first block and the last. */
static int look_at_roles(TsPatch *p, void *const *at, const int64_t *dim, TsError *err) {
  double until = ts_clock_msec() + LOOKED_MSEC;
  TsTileRunAs as = {.every = INT64_MAX, .stop = ts_patch_late, .stopper = &until};
  TsTileDebug *d = ts_tile_debug_open(p->entry.at, err);
  if (!d) return -1;
  ts_tile_debug_results(d, true);
  ts_tile_debug_as(d, &as);
  int failed = ts_tile_debug_run(d, at, dim, err);
  bool late = failed && err->code == TS_ERR_interrupt;
  if (!failed && ts_tile_debug_count(d)) {
    const TsTileFinding *f = ts_tile_debug_finding(d, 0);
    failed = ts_error_set(err, TS_ERR_value, "line %d: %.400s", f->line, f->text);
  }
  ts_tile_debug_close(d);
  if (!late || ts_cpu_interrupted()) return failed;
  ts_error_clear(err);
  ts_patch_remark(p, "races and waits were not looked at: it took too long; f:debug does");
  return 0;
}

int ts_patch_safe(TsPatch *p, void *const *at, const int64_t *dim, TsError *err) {
  double until = ts_clock_msec() + PATIENCE_MSEC;
  const TsTileStmt *by = led_by_data(&p->k[PATCH_made], p->lines, err);
  if (by && !led_by_data(&p->k[PATCH_usual], p->k[PATCH_usual].tile, err)) {
    ts_error_set(err, TS_ERR_value,
                 "line %s: what is read here decides where memory is touched, or which way is "
                 "taken, so other arguments could lead it out of its memory",
                 p->lines->place[by->line]);
    return ts_error_hint(err, "positions may depend on sizes, loops and constants alone");
  }
  if (err->code) return -1;
  if (by)
    ts_patch_remark(p, "positions depend on data, and were looked at for these arguments alone");
  TsTileRunAs as = {.dry = !by, .stop = ts_patch_late, .stopper = &until};
  if (ts_tile_run_as(p->lines, at, dim, &as, err)) {
    if (err->code == TS_ERR_interrupt && !ts_cpu_interrupted())
      ts_error_set(err, TS_ERR_value, "the interpreter was not at its end after %d s",
                   PATIENCE_MSEC / 1000);
    return -1;
  }
  if (ts_cpu_interrupted()) return ts_error_set(err, TS_ERR_interrupt, "interrupted");
  bool roles = ts_target_gpu(p->target) && p->lines->form == TS_FORM_explicit;
  return roles ? look_at_roles(p, at, dim, err) : 0;
}
