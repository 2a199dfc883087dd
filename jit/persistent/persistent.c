/* From launches to a program, and its launches. See jit/persistent/persistent.h. */
#include "jit/persistent/persistent.h"

#include <stdlib.h>
#include <string.h>

#include "devices/sim.h"
#include "jit/gpu/persistent.h"

enum { ALIGN = 16, ROOM = 256, MOST_SEEN = 64 };

struct TsPersistentRun {
  TsPersistentRun *next; /* of all */
  bool launched;         /* since somebody looked */
  TsDevice *d;
  const TsPersistentKind *kind;
  void *of;
  TsPersistent *p;
  int nown, capown;
  int nseen;
  struct Seen {
    const TsTile *k;
    TsPersistentPhase phase[TS_GPU_PHASES];
  } seen[MOST_SEEN];
  void **own; /* scratch of simulated kernels, in order */
};

static TsPersistentWanted wanted;
static int64_t launches;
static TsPersistentRun *first; /* on the context's thread, as all of it is */

TsPersistentWanted *ts_persistent_wanted(void) { return &wanted; }
int64_t ts_persistent_count(void) { return launches; }

static const TsPersistentKind *kind_of(const TsDevice *d, TsError *err) {
  const TsTarget *t = ts_target_of(d);
  if (d->simulated) return &ts_persistent_simulated;
  if (t && ts_target_gpu(t) && t->maker == TS_MAKER_nvidia) return &ts_persistent_nvidia;
  ts_error_set(err, TS_ERR_value, "kernels of %s do not wait for each other", d->name);
  return NULL;
}

/* ---- what one kernel becomes */
typedef struct Gather {
  TsPersistentRun *r;
  TsPersistent *p;
  int nown; /* of r->own, that are taken */
} Gather;

/* Blocks as the kernel's code has them, looked at once a kernel. */
static const TsPersistentPhase *phases_of(TsPersistentRun *r, const TsTile *k, TsError *err) {
  for (int i = 0; i < r->nseen; i++)
    if (r->seen[i].k == k) return r->seen[i].phase;
  if (r->nseen == MOST_SEEN)
    return ts_error_set(err, TS_ERR_value, "there are more than %d different kernels",
                        MOST_SEEN),
           NULL;
  struct Seen *s = &r->seen[r->nseen];
  if (ts_gpu_persistent_phases(k, ts_target_of(r->d), s->phase, err)) return NULL;
  s->k = k, r->nseen++;
  return s->phase;
}

static bool keep_own(TsPersistentRun *r, void *p) {
  if (r->nown == r->capown) {
    int more = r->capown ? 2 * r->capown : 32;
    void **list = realloc(r->own, sizeof *list * (size_t)more);
    if (!list) return false;
    r->own = list, r->capown = more;
  }
  r->own[r->nown++] = p;
  return true;
}

/* A simulated kernel's, which its interpreter would make: zeros where counters are, else
 * nothing. */
static void *own_scratch(Gather *g, const TsTile *k, int64_t nbytes, TsError *err) {
  if (g->nown < g->r->nown) return g->r->own[g->nown++];
  void *p = malloc((size_t)nbytes + 1);
  if (p) memset(p, k->form == TS_FORM_explicit ? 0 : 0xff, (size_t)nbytes);
  if (p && keep_own(g->r, p)) return g->nown++, p;
  free(p);
  ts_error_memory(err);
  return NULL;
}

/* As code of either kind has them one behind the other. */
static int64_t spread(const TsTile *k, int64_t nbytes) {
  int64_t step = k->form == TS_FORM_explicit ? ALIGN : ROOM;
  return (nbytes + step - 1) / step * step;
}

static int put_scratch(Gather *g, const TsDeviceLeaf *leaf, uint64_t *scratch, TsError *err) {
  int64_t nbytes[TS_PERSISTENT_SCRATCH];
  int n = ts_persistent_scratch(leaf->k, leaf->dim, nbytes);
  uint64_t at = (uintptr_t)leaf->scratch;
  if (n > TS_PERSISTENT_SCRATCH) return 0; /* which is refused later */
  if (n && !at && !g->r->d->simulated)
    return ts_error_set(err, TS_ERR_value, "@%.40s has no memory yet", leaf->k->name);
  for (int i = 0; i < n; i++) {
    if (g->r->d->simulated && !(at = (uintptr_t)own_scratch(g, leaf->k, nbytes[i], err)))
      return -1;
    scratch[i] = at;
    at += (uint64_t)spread(leaf->k, nbytes[i]);
  }
  return 0;
}

static int take(void *with, const TsDeviceLeaf *leaf, TsError *err) {
  enum { MOST = 64 };
  Gather *g = with;
  TsDevice *d = g->r->d;
  uint64_t arg[MOST], scratch[TS_PERSISTENT_SCRATCH], low = 0;
  const TsTile *k = leaf->k;
  if (!k)
    return ts_error_set(err, TS_ERR_value,
                        "a kernel is not ready, or its program is not at hand");
  if (k->nparam > MOST)
    return ts_error_set(err, TS_ERR_value, "@%.40s has too many parameters", k->name);
  for (int i = 0; i < k->nparam; i++) {
    arg[i] = (uintptr_t)(d->simulated ? ts_sim_host(leaf->arg[i]) : leaf->arg[i]);
    low |= arg[i];
  }
  if (low % ALIGN)
    return ts_error_set(err, TS_ERR_value,
                        "@%.40s has a parameter that begins at no multiple of %d bytes",
                        k->name, ALIGN);
  const TsPersistentPhase *plan = phases_of(g->r, k, err);
  if (!plan || put_scratch(g, leaf, scratch, err)) return -1;
  return ts_persistent_add(g->p, k, arg, scratch, leaf->dim, plan, err);
}

/* ---- life */
static TsPersistent *gathered(TsPersistentRun *r, TsPersistentEach *each, void *with,
                              TsError *err) {
  Gather g = {.r = r, .p = ts_persistent_new()};
  if (!g.p) return ts_error_memory(err), NULL;
  ts_device_kernel_gather(take, &g);
  int failed = each(with, err);
  ts_device_kernel_gather(NULL, NULL);
  if (!failed) ts_persistent_spare(g.p);
  if (!failed && g.p->ntask < 2)
    failed = ts_error_set(err, TS_ERR_value, "there is one kernel, or none");
  if (!failed) return g.p;
  ts_persistent_free(g.p);
  return NULL;
}

static int plan(TsPersistent *p, int64_t resident, TsError *err) {
  int64_t blocks = wanted.blocks && wanted.blocks < resident ? wanted.blocks : resident;
  return ts_persistent_plan(p, blocks, resident, err) || ts_persistent_check(p, err) ? -1 : 0;
}

TsPersistentRun *ts_persistent_open(TsDevice *d, TsPersistentEach *each, void *with,
                                    TsError *err) {
  const TsPersistentKind *kind = kind_of(d, err);
  TsPersistentRun *r = kind ? calloc(1, sizeof *r) : NULL;
  int64_t resident = 0;
  if (!r) return kind ? (ts_error_memory(err), NULL) : NULL;
  r->d = d, r->kind = kind, r->next = first, first = r;
  bool well = (r->p = gathered(r, each, with, err)) != NULL;
  well = well && (r->of = kind->open(d, r->p, &resident, err)) != NULL;
  if (well && !plan(r->p, resident, err) && !kind->load(r->of, r->p, err)) return r;
  ts_persistent_close(r);
  return NULL;
}

static bool same_codes(const TsPersistent *a, const TsPersistent *b) {
  if (a->ntask != b->ntask || a->ncode != b->ncode) return false;
  for (int i = 0; i < a->ntask; i++)
    if (a->task[i].k != b->task[i].k || a->task[i].phase != b->task[i].phase) return false;
  return true;
}

int ts_persistent_again(TsPersistentRun *r, TsPersistentEach *each, void *with, TsError *err) {
  TsPersistent *p = gathered(r, each, with, err);
  if (p && !same_codes(p, r->p)) ts_persistent_free(p), p = NULL;
  if (!p) return -1;
  int failed = plan(p, r->p->resident, err) || r->kind->load(r->of, p, err);
  TsPersistent *old = failed ? p : r->p;
  if (!failed) r->p = p;
  ts_persistent_free(old);
  return failed ? -1 : 0;
}

int ts_persistent_launch(TsPersistentRun *r, TsError *err) {
  launches++;
  r->launched = true;
  return r->kind->launch(r->of, r->p, err);
}

bool ts_persistent_asks(void) {
  for (const TsPersistentRun *r = first; r; r = r->next)
    if (r->launched && r->kind->look) return true;
  return false;
}

int ts_persistent_tell(TsError *err) {
  int failed = 0;
  for (TsPersistentRun *r = first; r; r = r->next) {
    if (r->launched && r->kind->look && r->kind->look(r->of, r->p, err)) failed = -1;
    r->launched = false;
  }
  return failed;
}

const TsPersistent *ts_persistent_of(const TsPersistentRun *r) { return r->p; }

void ts_persistent_close(TsPersistentRun *r) {
  if (!r) return;
  TsPersistentRun **at = &first;
  while (*at != r) at = &(*at)->next;
  *at = r->next;
  if (r->of) r->kind->close(r->of);
  ts_persistent_free(r->p);
  while (r->nown) free(r->own[--r->nown]);
  free(r->own);
  free(r);
}
