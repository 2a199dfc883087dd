/* See jit/device/marks.h. The thread of the context alone launches, so nothing here is locked. */
#include "jit/device/marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/mesh/overlap.h"
#include "ir/tile/marks.h"
#include "lib/clock.h"

/* A launch has at most so many records, and lists of so many bytes. Some warps are enough to know what
 * all do, and the fewer blocks write their turns down, the less the launch is slower for it. */
enum { MOST_RECORDS = 32768, MOST_BYTES = 24 << 20, MOST_TURNS = 4096, ENOUGH_WARPS = 80 };

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

void ts_marks_label(const char *name, double bytes, double far, double flops) {
  snprintf(marks.next.label, sizeof marks.next.label, "%s", name);
  marks.next.bytes = bytes, marks.next.far = far, marks.next.flops = flops;
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

/* Records of simulated launches are the interpreter's. */
static bool by_launch(const TsDevice *d) {
  const TsTarget *t = ts_target_of(d);
  return d->run && t && ts_gpu_marks_by_launch(t);
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
  m->most_far = ts_overlap_of(d->kind, &(TsOverlapAsked){0}).link * 1e6;
  m->most_flops = (double)flops * d->clock * d->processors;
}

/* A multiple of every, which is odd: each so many blocks the warps of one write their turns down. It is
 * none of 2 or 3 as well: what blocks do often goes by these, and all of it is to be seen. */
static uint32_t apart(const TsMarkedLaunch *m) {
  uint32_t enough = (ENOUGH_WARPS + m->warps - 1) / m->warps;
  uint32_t n = m->grid / m->every / enough;
  while (n > 1 && (n % 2 == 0 || n % 3 == 0)) n--;
  return m->every * (n ? n : 1);
}

static void choose_blocks(TsMarkedLaunch *m) {
  uint64_t records = (uint64_t)m->grid * m->warps;
  m->every = records > MOST_RECORDS ? ((uint32_t)(records / MOST_RECORDS) + 1) | 1 : 1;
  m->apart = apart(m);
  uint64_t lists = (m->grid / m->apart + 1) * (uint64_t)m->warps;
  uint64_t turns = MOST_BYTES / sizeof(TsGpuTurn) / lists;
  m->turns = (uint32_t)(turns < MOST_TURNS ? turns : MOST_TURNS);
}

int ts_marks_outline(TsMarkedLaunch *m, const TsDevice *d, const TsTile *k, uint32_t blocks,
                     uint32_t threads, TsError *err) {
  TsTileMark mark[TS_TILE_MARKS];
  int n = ts_tile_marks(k, mark);
  *m = (TsMarkedLaunch){.grid = blocks, .threads = threads, .nstage = 1 + n};
  memcpy(m->label, marks.next.label, sizeof m->label);
  m->bytes = marks.next.bytes, m->far = marks.next.far, m->flops = marks.next.flops;
  snprintf(m->kernel, sizeof m->kernel, "%s", k->name);
  m->warps = (m->threads + 31) / 32;
  limits(m, d, k);
  add_roles(m, k->body);
  if (!m->nrole) m->role[m->nrole++].warps = (int)m->warps;
  m->ticks = by_launch(d);
  m->placed = !m->ticks || ts_target_of(d)->place;
  m->stage = calloc(1 + (size_t)n, sizeof *m->stage);
  if (!m->stage) return ts_error_memory(err), -1;
  m->stage[0].stage = "between";
  for (int i = 0; i < n; i++) {
    TsMarkedStage *s = &m->stage[1 + i];
    s->stage = ts_tile_stage_name(mark[i].stage);
    snprintf(s->what, sizeof s->what, "%s", mark[i].what ? mark[i].what : "");
    snprintf(s->place, sizeof s->place, "%s", k->place[mark[i].stmt->line]);
  }
  choose_blocks(m);
  return 0;
}

int ts_marks_add(TsMarkedLaunch *m, const TsGpuRecord *r, const TsGpuTurn *list) {
  size_t turns = sizeof *list * ts_gpu_record_turns(r, m->turns);
  size_t nbytes = m->record_bytes + sizeof *r + turns;
  if (nbytes > m->record_room) {
    char *more = realloc(m->record, 2 * nbytes);
    if (!more) return -1;
    m->record = more, m->record_room = 2 * nbytes;
  }
  memcpy(m->record + m->record_bytes, r, sizeof *r);
  if (turns) memcpy(m->record + m->record_bytes + sizeof *r, list, turns);
  m->record_bytes = nbytes, m->nrecord++;
  return 0;
}

/* Records and lists of a launch: there, with zeros, and as they come back. */
typedef struct Room {
  TsDevice *d;
  int64_t nrecord, nbytes;
  char *here, *there;
} Room;

static int make_room(Room *r, TsError *err) {
  r->here = calloc(1, (size_t)r->nbytes);
  if (!r->here) return ts_error_memory(err), -1;
  r->there = r->d->alloc(r->d, r->nbytes, err);
  return r->there ? r->d->upload(r->d, r->there, r->here, r->nbytes, err) : -1;
}

static void leave_room(Room *r) {
  if (r->there) r->d->free(r->d, r->there, r->nbytes);
  free(r->here);
}

/* Of the warps that ran. */
static int gather(TsMarkedLaunch *m, const Room *room, TsError *err) {
  const TsTarget *t = ts_target_of(m->device);
  TsGpuRecord *r = (TsGpuRecord *)room->here;
  TsGpuTurn *list = (TsGpuTurn *)(r + room->nrecord);
  for (int64_t i = 0; i < room->nrecord; i++, r++) {
    int64_t number = (int64_t)(r->block / m->apart) * m->warps + r->warp;
    TsGpuTurn *turns = r->nturn ? list + number * m->turns : NULL;
    if (t && t->clock_bits) ts_marks_unwrap(r, turns, m->turns, t->clock_bits);
    if (r->ended_ns && ts_marks_add(m, r, turns)) return ts_error_memory(err), -1;
  }
  return 0;
}

/* Each n-th block of all, n odd: see jit/gpu/marks.h. */
static TsGpuSome some(const TsMarkedLaunch *m, uint32_t n) {
  uint32_t inverse = n; /* of as many low bits, each time twice as many, as are right */
  for (int bits = 3; bits < 32; bits *= 2) inverse *= 2 - n * inverse;
  return (TsGpuSome){inverse, (m->grid + n - 1) / n};
}

/* ---- who tells the code where records are */
static int run(TsDevice *d, const TsLaunch *l, TsError *err) {
  TsLaunch own = *l;
  own.early = own.dependent = false;
  if (d->run->launch(d, &own, err)) return -1;
  return d->synchronize ? d->synchronize(d, err) : 0;
}

/* A variable of the module. */
static int tell_module(TsDevice *d, void *module, const TsLaunch *l, const TsGpuMarksRoom *says,
                       TsError *err) {
  void *at;
  int64_t size;
  const TsGpuMarksRoom none = {.records = 0};
  if (d->run->variable(d, module, TS_GPU_MARKS_NAME, &at, &size, err)) return -1;
  if (size != sizeof *says)
    return ts_error_set(err, TS_ERR_device, "marks: a variable of %lld bytes", (long long)size);
  int failed = d->upload(d, at, says, sizeof *says, err) || run(d, l, err);
  /* Whatever failed: a later launch of the module writes where this points. */
  TsError second = {0};
  return d->upload(d, at, &none, sizeof none, failed ? &second : err) || failed ? -1 : 0;
}

/* Arguments of the launch: see jit/gpu/marks.h. */
static int tell_launch(TsDevice *d, const TsLaunch *l, const TsGpuMarksRoom *says,
                       TsError *err) {
  enum { MOST = 256 };
  void *list[MOST], *records = (void *)(uintptr_t)says->records;
  uint64_t number[TS_GPU_MARKS_WORDS];
  TsLaunch own = *l;
  int n = l->pointers;
  if (l->pointers + l->words + 1 + TS_GPU_MARKS_WORDS > MOST)
    return ts_error_set(err, TS_ERR_value, "marks: too many parameters");
  memcpy(number, &says->lists, sizeof number);
  if (says->records) number[0] -= says->records;
  memcpy(list, l->args, sizeof *list * (size_t)n);
  list[n++] = &records;
  memcpy(list + n, l->args + l->pointers, sizeof *list * (size_t)l->words);
  for (int i = 0; i < TS_GPU_MARKS_WORDS; i++) list[n + l->words + i] = &number[i];
  own.args = list, own.pointers++, own.words += TS_GPU_MARKS_WORDS;
  return says->records ? run(d, &own, err) : d->run->launch(d, &own, err);
}

static int tell(TsDevice *d, void *module, const TsLaunch *l, const TsGpuMarksRoom *says,
                TsError *err) {
  return by_launch(d) ? tell_launch(d, l, says, err) : tell_module(d, module, l, says, err);
}

static int record(TsDevice *d, void *module, const TsLaunch *l, TsMarkedLaunch *m,
                  TsError *err) {
  TsGpuMarksRoom says = {.recorded = some(m, m->every), .turns = m->turns};
  if (m->nstage > 1) says.listed = some(m, m->apart);
  Room room = {.d = d};
  room.nrecord = (int64_t)says.recorded.blocks * m->warps;
  int64_t lists = (int64_t)says.listed.blocks * m->warps * m->turns;
  room.nbytes =
      room.nrecord * (int64_t)sizeof(TsGpuRecord) + lists * (int64_t)sizeof(TsGpuTurn);
  int failed = make_room(&room, err);
  says.records = (uintptr_t)room.there;
  says.lists = says.records + (uint64_t)room.nrecord * sizeof(TsGpuRecord);
  failed = failed || tell(d, module, l, &says, err);
  int64_t over = ts_clock_nsec();
  failed = failed || d->download(d, room.here, room.there, room.nbytes, err);
  if (!failed && by_launch(d)) ts_marks_clock(d, over, (TsGpuRecord *)room.here, room.nrecord);
  failed = failed || gather(m, &room, err);
  leave_room(&room);
  return failed ? -1 : 0;
}

int ts_marks_launch(TsDevice *d, void *module, const TsTile *k, const TsLaunch *l,
                    TsError *err) {
  static const TsGpuMarksRoom none = {.records = 0};
  TsMarkedLaunch m = {.grid = 0};
  bool can = by_launch(d) || (d->run->variable && d->run->facts);
  if (!marks.of || !can)
    return by_launch(d) ? tell_launch(d, l, &none, err) : d->run->launch(d, l, err);
  if (ts_marks_outline(&m, d, k, l->grid[0], l->block[0], err) ||
      (d->run->facts &&
       d->run->facts(d, l->kernel, (int)l->block[0], l->shared, &m.facts, err)) ||
      record(d, module, l, &m, err) || ts_marks_keep(&m, err))
    return ts_marks_forget(&m), -1;
  return 0;
}
