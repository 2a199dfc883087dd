/* Programs and their tasks. See ir/persistent/program.h. */
#include "ir/persistent/program.h"

#include <stdlib.h>
#include <string.h>

#include "ir/tile/find.h"

TsPersistent *ts_persistent_new(void) { return calloc(1, sizeof(TsPersistent)); }

void ts_persistent_free(TsPersistent *p) {
  if (!p) return;
  ts_arena_free(&p->arena);
  free(p->task);
  free(p);
}

int ts_persistent_scratch(const TsTile *k, const int64_t *dim, int64_t *nbytes) {
  int n = 0;
  for (const TsTileStmt *s = k->body->first; s; s = s->next) {
    if (s->op != TS_TILE_alloc || s->out[0]->type.space != TS_SPACE_scratch) continue;
    if (n < TS_PERSISTENT_SCRATCH) nbytes[n] = ts_tile_dense_bytes(&s->out[0]->type, dim);
    n++;
  }
  return n;
}

/* ---- what a task touches */
static TsPersistentBytes reach_of(const TsTileType *t, uint64_t at, const int64_t *dim) {
  int64_t below, above;
  ts_tile_reach(t, dim, &below, &above);
  return (TsPersistentBytes){at - (uint64_t)below, (uint64_t)(below + above)};
}

/* Statements by which blocks of one grid see each other. */
static bool is_chained(const TsTile *k) {
  static const int op[] = {TS_TILE_claim, TS_TILE_until, TS_TILE_signal, TS_TILE_pace};
  for (size_t i = 0; i < sizeof op / sizeof *op; i++)
    if (ts_tile_find(k->body, op[i])) return true;
  return false;
}

static int put_turns(TsPersistent *p, TsPersistentTask *t, TsError *err) {
  size_t n = (size_t)t->ntouch;
  TsPersistentBytes *list = NULL;
  if (t->chained || t->turns > TS_PERSISTENT_TURNS) return 0;
  for (int i = 0; i < t->ntouch; i++) {
    t->touch[i].turn = ts_arena_alloc(&p->arena, sizeof *list * (size_t)(t->turns + 1));
    if (!t->touch[i].turn) return ts_error_memory(err);
  }
  if (!(list = malloc(sizeof *list * (n + 1)))) return ts_error_memory(err);
  for (int64_t turn = 0; turn < t->turns; turn++) {
    int64_t from = turn * t->side, to = from + t->side;
    memset(list, 0, sizeof *list * n);
    bool whole = ts_persistent_footprint(t->k, t->phase, from, to < t->rounds ? to : t->rounds,
                                         t->dim, list);
    for (int i = 0; i < t->ntouch; i++) {
      uint64_t first = i < t->k->nparam ? t->arg[i] : t->scratch[i - t->k->nparam];
      t->touch[i].turn[turn] =
          whole ? (TsPersistentBytes){first + list[i].at, list[i].nbytes} : t->touch[i].all;
    }
  }
  free(list);
  return 0;
}

static int put_touches(TsPersistent *p, TsPersistentTask *t, TsError *err) {
  const TsTile *k = t->k;
  int64_t nbytes[TS_PERSISTENT_SCRATCH];
  int n = ts_persistent_scratch(k, t->dim, nbytes);
  t->touch = ts_arena_alloc(&p->arena, sizeof *t->touch * (size_t)(k->nparam + n + 1));
  if (!t->touch) return ts_error_memory(err);
  for (int i = 0; i < k->nparam; i++)
    t->touch[t->ntouch++] = (TsPersistentTouch){
        .all = reach_of(&k->param[i]->type, t->arg[i], t->dim), .write = i >= k->nin};
  for (int i = 0; i < n; i++)
    t->touch[t->ntouch++] =
        (TsPersistentTouch){.all = {t->scratch[i], (uint64_t)nbytes[i]}, .write = true};
  return put_turns(p, t, err);
}

/* ---- tasks */
static const void *keep(TsPersistent *p, const void *list, size_t nbytes) {
  void *own = ts_arena_alloc(&p->arena, nbytes + 1);
  return own ? memcpy(own, list, nbytes) : NULL;
}

static int code_of(TsPersistent *p, const TsTile *k, int phase) {
  for (int i = 0; i < p->ntask; i++)
    if (p->task[i].k == k && p->task[i].phase == phase) return p->task[i].code;
  return p->ncode++;
}

static TsPersistentTask *new_task(TsPersistent *p) {
  if (p->ntask == p->captask) {
    int more = p->captask ? 2 * p->captask : 64;
    TsPersistentTask *list = realloc(p->task, sizeof *list * (size_t)more);
    if (!list) return NULL;
    p->task = list, p->captask = more;
  }
  TsPersistentTask *t = &p->task[p->ntask];
  *t = (TsPersistentTask){.k = NULL};
  return t;
}

static int refuse(const TsTile *k, const char *why, TsError *err) {
  return ts_error_set(err, TS_ERR_value, "@%.40s %s", k->name, why);
}

static int look(const TsTile *k, TsError *err) {
  if (k->sequence) return refuse(k, "is several kernels", err);
  if (k->cluster > 1) return refuse(k, "has blocks that share their memory", err);
  if (k->marks) return refuse(k, "has profile marks", err);
  if (ts_tile_find(k->body, TS_TILE_meet)) return refuse(k, "waits for other devices", err);
  return 0;
}

int ts_persistent_add(TsPersistent *p, const TsTile *k, const uint64_t *arg,
                      const uint64_t *scratch, const int64_t *dim,
                      const TsPersistentPhase *plan, TsError *err) {
  enum { MOST = 16 };
  int64_t rounds[MOST], nbytes[TS_PERSISTENT_SCRATCH];
  if (look(k, err)) return -1;
  int n = ts_persistent_rounds(k, dim, MOST, rounds);
  int nscratch = ts_persistent_scratch(k, dim, nbytes);
  if (n < 0) return refuse(k, "has a grid that is not known before it runs", err);
  if (nscratch > TS_PERSISTENT_SCRATCH) return refuse(k, "has too many pieces of memory", err);
  const uint64_t *own = keep(p, arg, sizeof *arg * (size_t)k->nparam);
  const uint64_t *memory = keep(p, scratch, sizeof *scratch * (size_t)nscratch);
  const int64_t *size = keep(p, dim, sizeof *dim * (size_t)k->ndim);
  if (!own || !memory || !size) return ts_error_memory(err);
  for (int i = 0; i < n; i++) {
    if (!rounds[i]) continue;
    if (p->ntask == TS_PERSISTENT_TASKS) return refuse(k, "comes behind too many others", err);
    TsPersistentTask *t = new_task(p);
    if (!t) return ts_error_memory(err);
    t->k = k, t->run = p->nrun, t->phase = i, t->code = code_of(p, k, i);
    t->rounds = rounds[i], t->side = plan[i].side > 1 ? plan[i].side : 1;
    t->turns = (t->rounds + t->side - 1) / t->side;
    t->chained = is_chained(k);
    t->arg = own, t->scratch = memory, t->dim = size;
    if (plan[i].threads > p->threads) p->threads = plan[i].threads;
    p->ntask++;
    if (put_touches(p, t, err)) return -1;
  }
  p->nrun++;
  return 0;
}
