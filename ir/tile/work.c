/* See ir/tile/work.h. Both bounds are found on one walk: what a statement takes is defined before it. */
#include "ir/tile/work.h"

#include <stdlib.h>

#include "ir/tile/text.h"

typedef struct Work {
  const TsTile *k;
  const int64_t *dim;
  TsError *err;
  uint16_t *chain;     /* by id: of how many tiles, one after another, it is made */
  double round, times; /* elements of this round so far; how often the loops around run in it */
} Work;

static double extent(const Work *w, int64_t d) {
  if (!ts_tile_dim_is(d)) return (double)d;
  return w->dim ? (double)w->dim[ts_tile_dim_index(d)] : 1;
}

static double numel(const Work *w, const TsTileVal v) {
  double n = 1;
  if (ts_tile_memory(&v->type)) return 1;
  for (int i = 0; i < v->type.rank; i++) n *= extent(w, v->type.dim[i]);
  return n;
}

static double elements(const Work *w, const TsTileStmt *s) {
  double most = 1;
  for (int i = 0; i < s->nin; i++)
    if (numel(w, s->in[i]) > most) most = numel(w, s->in[i]);
  for (int i = 0; i < s->nout; i++)
    if (numel(w, s->out[i]) > most) most = numel(w, s->out[i]);
  if (s->op == TS_TILE_mma && s->in[0]->type.rank == 2 && !ts_tile_memory(&s->in[0]->type))
    most = numel(w, s->out[0]) * extent(w, s->in[0]->type.dim[1]);
  return most;
}

static bool known(const Work *w, const TsTileVal v, double *is) {
  const TsTileStmt *s = v->stmt;
  if (s && s->op == TS_TILE_const) return *is = ts_tile_attr(s, "value")->f, true;
  if (!s || s->op != TS_TILE_dim || !w->dim) return false;
  return *is = (double)w->dim[ts_tile_attr(s, "index")->i], true;
}

static double rounds(const Work *w, const TsTileStmt *s) {
  double lo, hi, step = (double)ts_tile_attr(s, "step")->i;
  if (!known(w, s->in[0], &lo) || !known(w, s->in[1], &hi) || step < 1) return 1;
  return hi > lo ? (hi - lo) / step : 0;
}

static int wrong(const Work *w, const TsTileStmt *s, const char *what, double most) {
  TsText line = {0};
  bool placed = s->line > 0 && s->line < w->k->nplace;
  ts_tile_stmt_text(w->k, s, &line);
  ts_error_set(w->err, TS_ERR_value, "@%.40s: %s: %s at most %.0f%s%.60s\n    %.120s",
               w->k->name, ts_tile_op_name(s->op), what, most, placed ? ", at " : "",
               placed ? w->k->place[s->line] : "", line.at ? line.at : "");
  ts_text_free(&line);
  return -1;
}

static bool is_tile(const TsTileVal v) { return v->type.rank && !ts_tile_memory(&v->type); }

static int chain(Work *w, const TsTileStmt *s) {
  int longest = 0;
  if (w->k->form != TS_FORM_block) return 0;
  for (int i = 0; i < s->nin; i++)
    if (is_tile(s->in[i]) && w->chain[s->in[i]->id] > longest) longest = w->chain[s->in[i]->id];
  for (int i = 0; i < s->nout && !s->nregion; i++)
    w->chain[s->out[i]->id] = is_tile(s->out[i]) ? (uint16_t)(longest + 1) : 0;
  if (longest < TS_TILE_CHAIN || s->nregion || !s->nout) return 0;
  wrong(w, s, "tiles that are made of each other one by one are", TS_TILE_CHAIN);
  return ts_error_hint(w->err, "a store and a loop behind it begin a new chain");
}

static int region(Work *w, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    Work before = *w;
    bool loop = s->op == TS_TILE_for, grid = loop && ts_tile_attr(s, "parallel")->i;
    if (chain(w, s)) return -1;
    if (grid)
      w->round = 0, w->times = 1;
    else if (loop)
      w->times *= rounds(w, s);
    for (int i = 0; i < s->nregion; i++)
      if (region(w, s->region[i])) return -1;
    w->times = before.times;
    if (grid) w->round = before.round;
    if (!s->nregion) w->round += w->times * elements(w, s);
    if (w->round <= TS_TILE_ROUND_WORK) continue;
    wrong(w, s, "elements that a round of a kernel computes are", TS_TILE_ROUND_WORK);
    return ts_error_hint(w->err, "what is between two rounds of a parallel loop cannot be "
                                 "interrupted: smaller tiles, and more rounds");
  }
  return 0;
}

int ts_tile_check_work(const TsTile *k, const int64_t *dim, TsError *err) {
  Work w = {.k = k, .dim = dim, .err = err, .times = 1};
  if (!(w.chain = calloc((size_t)k->nvalue + 1, sizeof *w.chain))) return ts_error_memory(err);
  int bad = region(&w, k->body);
  free(w.chain);
  return bad;
}
