/* Profile marks of the simulated device: what the profiler shows there, and its tests read. */
#include "jit/device/marks.h"

#include <stdlib.h>
#include <string.h>

#include "ir/tile/marks.h"

enum { DEEPEST = 16 };

typedef struct Warp {
  int within[DEEPEST], depth;
} Warp;

struct TsSimMarks {
  TsMarkedLaunch launch;
  TsTileMark mark[TS_TILE_MARKS];
  int nmark;
  char *record; /* with room for all turns behind it */
  int nrecord, cap;
  int64_t last; /* the step at hand */
  bool failed;
  Warp warp[TS_TILE_ROLES];
  uint32_t block; /* whose records are being made, the last ones: one for each role */
};

static size_t record_bytes(const TsSimMarks *m) {
  return sizeof(TsGpuRecord) + sizeof(TsGpuTurn) * m->launch.turns;
}

static TsGpuRecord *record_at(TsSimMarks *m, int i) {
  return (TsGpuRecord *)(m->record + (size_t)i * record_bytes(m));
}

/* Records of another block; the last ones end where it begins. */
static bool next_block(TsSimMarks *m, uint32_t block, int64_t step) {
  TsMarkedLaunch *l = &m->launch;
  int n = l->nrole;
  if (m->nrecord + n > m->cap) {
    int cap = 2 * m->cap + n;
    char *more = realloc(m->record, (size_t)cap * record_bytes(m));
    if (!more) return false;
    m->record = more, m->cap = cap;
  }
  memset(m->warp, 0, sizeof m->warp);
  m->block = block;
  for (int i = 0; i < n; i++) {
    TsGpuRecord *r = record_at(m, m->nrecord++);
    memset(r, 0, record_bytes(m));
    *r = (TsGpuRecord){.begun_ns = (uint64_t)step, .begun = (uint64_t)step, .nturn = 1};
    r->block = block, r->warp = 0;
    r->processor = block % (uint32_t)(l->processors ? l->processors : 1);
    for (int before = 0; before < i; before++) r->warp += (uint32_t)l->role[before].warps;
    ((TsGpuTurn *)(r + 1))[0] = (TsGpuTurn){.at = (uint32_t)step, .stage = 0};
  }
  return true;
}

static void end_block(TsSimMarks *m, int64_t step) {
  for (int i = m->nrecord - m->launch.nrole; i >= 0 && i < m->nrecord; i++)
    record_at(m, i)->ended_ns = record_at(m, i)->ended = (uint64_t)step;
}

static void turn(TsSimMarks *m, int role, int stage, int64_t step) {
  TsGpuRecord *r = record_at(m, m->nrecord - m->launch.nrole + role);
  if (r->nturn < m->launch.turns)
    ((TsGpuTurn *)(r + 1))[r->nturn] =
        (TsGpuTurn){.at = (uint32_t)step, .stage = (uint32_t)stage};
  r->nturn++;
}

static void mark(void *marks, int64_t block, int role, const TsTileStmt *s, int64_t step) {
  TsSimMarks *m = marks;
  int i = ts_tile_mark_index(m->nmark, m->mark, s);
  if (m->failed || role >= m->launch.nrole) return;
  if (!m->nrecord || m->block != (uint32_t)block) {
    end_block(m, step - 1);
    m->failed = !next_block(m, (uint32_t)block, step - 1);
    if (m->failed) return;
  }
  Warp *w = &m->warp[role];
  m->last = step;
  if (!ts_tile_attr(s, "end")->i) {
    if (w->depth + 1 < DEEPEST) w->within[++w->depth] = 1 + i;
    turn(m, role, w->within[w->depth], step);
    return;
  }
  w->depth -= w->depth > 0;
  bool goes_on = s->next && s->next->op == TS_TILE_mark && !ts_tile_attr(s->next, "end")->i;
  if (!goes_on) turn(m, role, w->within[w->depth], step);
}

TsSimMarks *ts_sim_marks_begin(TsDevice *d, const TsTile *k, TsTileRunAs *as, TsError *err) {
  TsSimMarks *m = calloc(1, sizeof *m);
  if (!m) return ts_error_memory(err), NULL;
  if (ts_marks_outline(&m->launch, d, k, 1, k->threads ? (uint32_t)k->threads : 32, err))
    return free(m), NULL;
  m->nmark = ts_tile_marks(k, m->mark);
  as->mark = mark, as->marks = m;
  return m;
}

int ts_sim_marks_end(TsSimMarks *m, bool failed, TsError *err) {
  TsMarkedLaunch *l = &m->launch;
  end_block(m, m->last + 1);
  for (int i = 0; i < m->nrecord && !m->failed; i++) {
    const TsGpuRecord *r = record_at(m, i);
    m->failed = ts_marks_add(l, r, (const TsGpuTurn *)(r + 1));
  }
  if (!failed && m->failed) failed = true, ts_error_memory(err);
  l->grid = m->nrecord ? m->block + 1 : 1;
  l->facts = (TsKernelFacts){.blocks = 1, .threads_most = (int)l->threads};
  if (failed || ts_marks_keep(l, err)) failed = true, ts_marks_forget(l);
  free(m->record);
  free(m);
  return failed ? -1 : 0;
}
