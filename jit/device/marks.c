/* See jit/device/marks.h. The thread of the context alone launches, so nothing here is locked. */
#include "jit/device/marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/marks.h"

/* Records of a launch take at most so much: they get shorter, then only some blocks make them. */
enum { MOST_BYTES = 24 << 20, MOST_TURNS = 4096, FEW_TURNS = 128 };

/* The thread of the context alone launches. */
static struct {
  TsMarksOf of;
  TsMarkedLaunch *launch;
  int n, cap;
  TsMarkedLaunch next; /* its label */
} marks;

void ts_marks_forget(TsMarkedLaunch *m) {
  free(m->stage);
  free(m->record);
}

void ts_marks_collect(TsMarksOf of) {
  for (int i = 0; i < marks.n; i++) ts_marks_forget(&marks.launch[i]);
  marks.n = 0;
  marks.of = of;
}

void ts_marks_label(const char *name, double bytes, double flops) {
  snprintf(marks.next.label, sizeof marks.next.label, "%s", name);
  marks.next.bytes = bytes, marks.next.flops = flops;
}

TsMarksOf ts_marks_collecting(void) { return marks.of; }

const TsMarkedLaunch *ts_marks_launches(int *n) {
  *n = marks.n;
  return marks.launch;
}

int ts_marks_keep(const TsMarkedLaunch *m, TsError *err) {
  if (marks.n == marks.cap) {
    int cap = marks.cap ? 2 * marks.cap : 32;
    TsMarkedLaunch *more = realloc(marks.launch, sizeof *more * (size_t)cap);
    if (!more) return ts_error_memory(err), -1;
    marks.launch = more, marks.cap = cap;
  }
  marks.launch[marks.n++] = *m;
  return 0;
}

static void add_roles(TsMarkedLaunch *m, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == TS_TILE_role && m->nrole < TS_TILE_ROLES) {
      TsMarkedRole *role = &m->role[m->nrole++];
      snprintf(role->name, sizeof role->name, "%s", ts_tile_attr(s, "name")->str);
      role->warps = (int)ts_tile_attr(s, "warps")->i;
    } else if (s->op == TS_TILE_for) {
      add_roles(m, s->region[0]);
    }
  }
}

/* Whether a product of these bytes an operand's element is anywhere inside. */
static bool multiplies(const TsTileRegion *r, int nbytes) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == TS_TILE_mma && ts_dtypes[s->in[0]->type.dtype].nbytes == nbytes) return true;
    for (int i = 0; i < s->nregion; i++)
      if (multiplies(s->region[i], nbytes)) return true;
  }
  return false;
}

static void limits(TsMarkedLaunch *m, const TsDevice *d, const TsTile *k) {
  const TsTarget *t = ts_target_of(d);
  bool wide = false;
  for (int i = 0; i < k->nparam; i++) wide |= k->param[i]->type.dtype == TS_DT_f64;
  int flops = !t ? 0 : multiplies(k->body, 2) ? t->flops16 : wide ? t->flops64 : t->flops;
  m->device = d;
  m->processors = d->processors, m->clock = d->clock;
  m->most_bytes = d->bandwidth;
  m->most_flops = (double)flops * d->clock * d->processors;
}

int ts_marks_outline(TsMarkedLaunch *m, const TsDevice *d, const TsTile *k, uint32_t blocks,
                     uint32_t threads, TsError *err) {
  TsTileMark mark[TS_TILE_MARKS];
  int n = ts_tile_marks(k, mark);
  *m = (TsMarkedLaunch){.grid = blocks, .threads = threads, .nstage = 1 + n};
  memcpy(m->label, marks.next.label, sizeof m->label);
  m->bytes = marks.next.bytes, m->flops = marks.next.flops;
  snprintf(m->kernel, sizeof m->kernel, "%s", k->name);
  m->warps = (m->threads + 31) / 32;
  limits(m, d, k);
  add_roles(m, k->body);
  if (!m->nrole) m->role[m->nrole++].warps = (int)m->warps;
  m->stage = calloc(1 + (size_t)n, sizeof *m->stage);
  if (!m->stage) return ts_error_memory(err), -1;
  m->stage[0].stage = "between";
  for (int i = 0; i < n; i++) {
    TsMarkedStage *s = &m->stage[1 + i];
    s->stage = ts_tile_stage_name(mark[i].stage);
    snprintf(s->what, sizeof s->what, "%s", mark[i].what ? mark[i].what : "");
    snprintf(s->place, sizeof s->place, "%s", k->place[mark[i].stmt->line]);
  }
  uint64_t warps = (uint64_t)m->grid * m->warps;
  uint64_t turns = (MOST_BYTES / (warps ? warps : 1) - sizeof(TsGpuRecord)) / sizeof(TsGpuTurn);
  if (MOST_BYTES < warps * ts_gpu_record_bytes(FEW_TURNS)) turns = FEW_TURNS;
  m->turns = (uint32_t)(turns < MOST_TURNS ? turns : MOST_TURNS);
  m->record_bytes = ts_gpu_record_bytes(m->turns);
  uint64_t most = MOST_BYTES / ((uint64_t)m->warps * m->record_bytes);
  m->every = (uint32_t)((m->grid + most - 1) / most);
  return 0;
}

/* Records of warps that ran move together. */
static void gather(TsMarkedLaunch *m, int room) {
  for (int i = 0; i < room; i++) {
    char *at = m->record + (size_t)i * m->record_bytes;
    TsGpuRecord r;
    memcpy(&r, at, sizeof r);
    if (!r.ended_ns) continue;
    memmove(m->record + (size_t)m->nrecord++ * m->record_bytes, at, m->record_bytes);
  }
}

static int record(TsDevice *d, void *module, const TsLaunch *l, TsMarkedLaunch *m,
                  TsError *err) {
  void *room_at;
  int64_t size;
  int room = (int)((m->grid + m->every - 1) / m->every * m->warps);
  int64_t nbytes = (int64_t)room * m->record_bytes;
  if (d->run->variable(d, module, TS_GPU_MARKS_NAME, &room_at, &size, err)) return -1;
  if (size != sizeof(TsGpuMarksRoom))
    return ts_error_set(err, TS_ERR_device, "marks: a variable of %lld bytes", (long long)size);
  m->record = calloc(1, (size_t)nbytes);
  if (!m->record) return ts_error_memory(err), -1;
  void *there = d->alloc(d, nbytes, err);
  if (!there) return -1;
  TsGpuMarksRoom says = {.records = (uintptr_t)there,
                         .room = (uint32_t)room,
                         .every = m->every,
                         .turns = m->turns},
                 none = {.records = 0};
  TsLaunch own = *l;
  own.early = own.dependent = false;
  int failed = d->upload(d, there, m->record, nbytes, err) ||
               d->upload(d, room_at, &says, sizeof says, err) || d->run->launch(d, &own, err) ||
               (d->synchronize && d->synchronize(d, err)) ||
               d->download(d, m->record, there, nbytes, err) ||
               d->upload(d, room_at, &none, sizeof none, err);
  d->free(d, there, nbytes);
  if (!failed) gather(m, room);
  return failed ? -1 : 0;
}

int ts_marks_launch(TsDevice *d, void *module, const TsTile *k, const TsLaunch *l,
                    TsError *err) {
  TsMarkedLaunch m = {.grid = 0};
  if (!marks.of || !d->run->variable || !d->run->facts) return d->run->launch(d, l, err);
  if (ts_marks_outline(&m, d, k, l->grid[0], l->block[0], err) ||
      d->run->facts(d, l->kernel, (int)l->block[0], l->shared, &m.facts, err) ||
      record(d, module, l, &m, err) || ts_marks_keep(&m, err))
    return ts_marks_forget(&m), -1;
  return 0;
}
