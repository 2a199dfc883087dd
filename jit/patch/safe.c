/* An edited kernel runs as machine code only when it is known to touch what is its own.
 *
 * The interpreter refuses positions outside of memory, waits that never end and arrivals too many. It
 * need not compute: what positions and ways depend on is enough, so that a product of a thousand
 * rows is a matter of milliseconds. Where no element of memory is among that, every later run goes the
 * same way, whatever it is given. A kernel in which data decides although it does not in the usual
 * one is refused: its next arguments could lead it anywhere.
 *
 * What runs is what passes make of the text, so kernels of the CPU are run as vectors, too, for as
 * long as that is affordable. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "ir/tile/debug/debug.h"
#include "ir/tile/product/product.h"
#include "ir/tile/run/state.h"
#include "ir/tile/work.h"
#include "jit/patch/state.h"
#include "lib/clock.h"

enum { PATIENCE_MSEC = 20000, LOOKED_MSEC = 3000, VECTORS_MSEC = 2000, PRODUCT_MSEC = 100 };

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
  const char *partly = ts_tile_debug_partly(d);
  if (!failed && partly)
    ts_patch_remark(p, "races and waits were looked at as far as %s", partly);
  ts_tile_debug_close(d);
  if (!late || ts_cpu_interrupted()) return failed;
  ts_error_clear(err);
  ts_patch_remark(p, "races and waits were not looked at: it took too long; f:debug does");
  return 0;
}

/* ---- what passes and instructions take for granted */
static int wrong(const TsTile *k, const TsTileStmt *s, const char *what, TsError *err) {
  return ts_error_set(err, TS_ERR_value, "line %d: %s: %s", atoi(k->place[s->line]),
                      ts_tile_op_name(s->op), what);
}

/* Promises of the passes' own, and shifts whose result is no number. */
static int promises(const TsTile *k, const TsTileRegion *r, const unsigned char *decides,
                    TsError *err) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    bool shift = s->op == TS_TILE_shl || s->op == TS_TILE_shr || s->op == TS_TILE_sar;
    const TsTileStmt *count = shift ? s->in[1]->stmt : NULL;
    bool fixed = count && count->op == TS_TILE_const && ts_tile_attr(count, "value")->f >= 0 &&
                 ts_tile_attr(count, "value")->f < 8 * ts_dtypes[s->out[0]->type.dtype].nbytes;
    if (s->op == TS_TILE_store && ts_tile_attr(s, "aligned")->i)
      return wrong(k, s, "'aligned' is a promise that is not looked at: leave it out", err);
    if (shift && !fixed && decides[s->out[0]->id])
      return wrong(k, s, "a position is shifted by what is no constant", err);
    for (int i = 0; i < s->nregion; i++)
      if (promises(k, s->region[i], decides, err)) return -1;
  }
  return 0;
}

/* ---- runs */
typedef struct Run {
  TsPatch *p;
  void *const *at;
  const int64_t *dim;
  bool dry;
} Run;

/* 1: it was not at its end by then, which is an error where it must be. */
static int run(const Run *x, const TsTile *k, double msec, bool must, TsError *err) {
  double until = ts_clock_msec() + msec;
  TsTileRunAs as = {.dry = x->dry, .stop = ts_patch_late, .stopper = &until};
  int failed = ts_tile_run_as(k, x->at, x->dim, &as, err);
  if (ts_cpu_interrupted()) return ts_error_set(err, TS_ERR_interrupt, "interrupted");
  if (!failed || err->code != TS_ERR_interrupt) return failed;
  ts_error_clear(err);
  if (!must) return 1;
  return ts_error_set(err, TS_ERR_value, "the interpreter was not at its end after %d s",
                      PATIENCE_MSEC / 1000);
}

/* As the passes cut it. */
static int run_vectors(const Run *x, TsError *err) {
  TsPatch *p = x->p;
  bool product = ts_tile_is_product(p->lines, p->target);
  if (ts_target_gpu(p->target) || p->lines->form == TS_FORM_explicit) return 0;
  TsTile *k = ts_build_explicit(p->lines, p->target, false, err);
  int left = k ? run(x, k, product ? PRODUCT_MSEC : VECTORS_MSEC, false, err) : -1;
  ts_tile_free(k);
  if (left > 0 && !product)
    ts_patch_remark(p, "positions of its vectors were looked at for %d s, not to the end",
                    VECTORS_MSEC / 1000);
  return left < 0 ? -1 : 0;
}

/* Whether data leads it although it does not lead the usual one. */
static int led(TsPatch *p, const TsTile *k, bool *by_data, TsError *err) {
  const TsTileStmt *by = led_by_data(&p->k[PATCH_made], k, err);
  *by_data = by != NULL;
  if (!by) return err->code ? -1 : 0;
  if (led_by_data(&p->k[PATCH_usual], p->k[PATCH_usual].tile, err)) {
    ts_patch_remark(p,
                    "positions depend on data, and were looked at for these arguments alone");
    return 0;
  }
  wrong(k, by,
        "what is read decides where memory is touched, or which way is taken: other "
        "arguments could lead it out of its memory",
        err);
  return ts_error_hint(err, "positions may depend on sizes, loops and constants alone");
}

int ts_patch_safe(TsPatch *p, void *const *at, const int64_t *dim, TsError *err) {
  Run x = {p, at, dim, false};
  bool by_data = false;
  TsTile *k = ts_tile_expand(p->lines, err);
  unsigned char *decides = k ? ts_tile_decides(k) : NULL;
  if (k && !decides) ts_error_memory(err);
  int failed = !decides || ts_tile_check_work(p->lines, dim, err) ||
               promises(k, k->body, decides, err) || led(p, k, &by_data, err);
  x.dry = !by_data;
  failed = failed || run(&x, k, PATIENCE_MSEC, true, err) || run_vectors(&x, err);
  bool roles = ts_target_gpu(p->target) && p->lines->form == TS_FORM_explicit;
  if (!failed && roles) failed = look_at_roles(p, at, dim, err);
  free(decides);
  ts_tile_free(k);
  return failed ? -1 : 0;
}
