/* The kernel of another graph as steps of an operator. See ir/lower/steps.h. */
#include "ir/lower/steps.h"

enum { MOST = 16 }; /* temporaries of a sequence that becomes steps of another */

TsSched *ts_steps_schedule(const TsSched *s, const TsGraph *g, TsError *err) {
  TsSched *own = ts_sched_new(g, s->target, 1, err);
  if (!own) return NULL;
  own->profile = s->profile, own->processors = s->processors, own->plain = s->plain;
  own->simulated = s->simulated, own->most_work = s->most_work;
  if (own->ngroup == 1) return own;
  ts_sched_free(own);
  ts_error_set(err, TS_ERR_value, "there is no kernel for these operands");
  return NULL;
}

bool ts_steps_takes(const TsSchedKernel *k) {
  const TsTileSequence *s = k->tile->sequence;
  if (k->ndraw || k->tile->nparam > TS_TILE_STEP_PARAMS) return false;
  for (int i = 0; s && i < s->ntemp; i++)
    if (s->temp[i].shared || s->temp[i].data) return false;
  for (int i = 0; s && i < s->n; i++)
    for (int d = 0; d < s->step[i].k->ndim; d++)
      if (s->step[i].of[d]) return false;
  return !s || s->ntemp <= MOST;
}

void ts_steps_add_kernel(TsSteps *x, TsTile *k, const int *arg, const int64_t *dim) {
  const TsTileSequence *s = k->sequence;
  int temp[MOST];
  if (!s || x->failed) {
    ts_steps_add(x, k, arg, dim);
    return;
  }
  for (int i = 0; i < s->ntemp && i < MOST; i++)
    temp[i] = ts_tile_sequence_temp(x->sequence, s->temp[i].nbytes, s->temp[i].zero);
  for (int i = 0; i < s->n; i++) {
    const TsTileStep *p = &s->step[i];
    int own[TS_TILE_STEP_PARAMS];
    for (int a = 0; a < p->k->nparam; a++) {
      own[a] = p->arg[a] < 0 ? temp[-1 - p->arg[a]] : arg[p->arg[a]];
      if (p->byte[a]) own[a] = ts_steps_from(x, own[a], p->byte[a]);
    }
    ts_steps_add(x, ts_tile_share(p->k), own, p->dim);
  }
  ts_tile_free(k);
}
