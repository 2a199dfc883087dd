/* What is known of devices: see jit/tune/device.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/code/sha256.h"
#include "jit/tune/device.h"

/* ---- names */
static void put_value(TsText *t, TsVal v, TsLayoutFn *layout, void *arg) {
  ts_text_format(t, " %s%s", ts_dtypes[v->meta.dtype].name,
                 ts_sched_row_major(layout, arg, v) ? "" : "'");
}

static void put_product(TsText *t, const TsNode *n) {
  const TsMeta *a = &n->in[0]->meta, *y = &n->out[0].meta;
  int64_t cols = y->dim[y->ndim - 1];
  ts_text_format(t, " %lldx%lldx%lld", (long long)(cols ? ts_meta_numel(y) / cols : 0),
                 (long long)cols, (long long)a->dim[a->ndim - 1]);
}

void ts_tune_device_name(const TsGroup *g, TsLayoutFn *layout, void *arg, TsText *t) {
  const TsNode *product = NULL;
  if (g->kind == TS_GROUP_vm || g->kind == TS_GROUP_attention || g->kind == TS_GROUP_conv)
    return;
  ts_text_str(t, ts_group_kind_name(g->kind));
  for (int i = 0; i < g->nnode; i++) {
    if (g->node[i]->op == TS_OP_matmul) product = g->node[i];
    ts_text_format(t, "%s%s", i ? "+" : " ", ts_node_name(g->node[i]));
  }
  if (product) put_product(t, product);
  for (int i = 0; i < g->naxis && !product; i++)
    ts_text_format(t, "%s%lld", i ? "x" : " ", (long long)g->axis[i]);
  ts_text_str(t, " in");
  for (int i = 0; i < g->nin; i++) put_value(t, g->in[i], layout, arg);
  ts_text_str(t, " out");
  for (int i = 0; i < g->nout; i++) put_value(t, g->out[i], layout, arg);
}

void ts_tune_device_kind(const TsDevice *d, TsText *kind) {
  ts_text_format(kind, "%s %d", d->target ? d->target->name : d->kind, d->processors);
}

/* ---- the program's own */
typedef struct Shipped {
  const char *device, *name, *choice;
  double was_usec, usec;
} Shipped;

static const Shipped shipped[] = {
#define TUNED(device, name, choice, was_usec, usec) {device, name, choice, was_usec, usec},
#include "jit/tune/tuned.def"
#undef TUNED
    {"", "", "", 0, 0}};

static bool in_program(const char *device, const char *name, TsTuneEntry *e) {
  for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++) {
    if (strcmp(shipped[i].name, name) || strcmp(shipped[i].device, device)) continue;
    *e = (TsTuneEntry){.was_usec = shipped[i].was_usec, .usec = shipped[i].usec};
    return ts_sched_choice_parse(shipped[i].choice, &e->choice);
  }
  return false;
}

/* ---- this process: also what is known to be unknown, so that no file is looked for twice */
typedef struct Row {
  struct Row *next;
  uint8_t key[32];
  bool some;
  TsTuneEntry e;
} Row;

static struct {
  pthread_mutex_t lock;
  Row *first[64];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

void ts_tune_device_forget(void) {
  pthread_mutex_lock(&known.lock);
  for (int i = 0; i < 64; i++)
    for (Row *k = known.first[i], *next; k; k = next) {
      next = k->next;
      free(k);
      known.first[i] = next;
    }
  pthread_mutex_unlock(&known.lock);
}

static void key_of(const TsDevice *d, const char *name, uint8_t key[32]) {
  TsText kind = {0};
  TsSha256 s;
  ts_text_str(&kind, "tune device 1 ");
  ts_tune_device_kind(d, &kind);
  ts_sha256_begin(&s);
  if (kind.at) ts_sha256_add(&s, kind.at, kind.len + 1);
  ts_sha256_add(&s, name, strlen(name));
  ts_sha256_end(&s, key);
  ts_text_free(&kind);
}

static Row *find(const uint8_t *key) {
  Row *k = known.first[key[0] % 64];
  while (k && memcmp(k->key, key, sizeof k->key)) k = k->next;
  return k;
}

static void put(const uint8_t *key, bool some, const TsTuneEntry *e) {
  pthread_mutex_lock(&known.lock);
  Row *k = find(key);
  if (!k && (k = calloc(1, sizeof *k))) {
    memcpy(k->key, key, sizeof k->key);
    k->next = known.first[key[0] % 64];
    known.first[key[0] % 64] = k;
  }
  if (k) k->some = some, k->e = *e;
  pthread_mutex_unlock(&known.lock);
}

static bool look(const TsDevice *d, const char *name, TsTuneEntry *e) {
  uint8_t key[32];
  TsText kind = {0};
  key_of(d, name, key);
  pthread_mutex_lock(&known.lock);
  Row *k = find(key);
  bool some = k && k->some, done = k;
  if (some) *e = k->e;
  pthread_mutex_unlock(&known.lock);
  if (done) return some;
  ts_tune_device_kind(d, &kind);
  some = ts_tune_read(key, e);
  if (some) e->origin = TS_CHOICE_kept;
  if (!some && kind.at && in_program(kind.at, name, e))
    some = true, e->origin = TS_CHOICE_shipped;
  ts_text_free(&kind);
  if (!some) *e = (TsTuneEntry){.usec = 0};
  put(key, some, e);
  return some;
}

/* A choice that is not among the candidates of this program is nobody's. */
static bool is_candidate(const TsSched *s, const TsGroup *g, const TsSchedChoice *c) {
  TsSchedChoice all[TS_SCHED_CHOICES];
  for (int i = ts_sched_choices(s, g, all); i-- > 0;)
    if (ts_sched_choice_same(&all[i], c)) return true;
  return false;
}

bool ts_tune_device_known(const TsDevice *d, const TsSched *s, const TsGroup *g,
                          TsLayoutFn *layout, void *arg, TsTuneEntry *e) {
  TsText name = {0};
  ts_tune_device_name(g, layout, arg, &name);
  bool some = name.len && !name.failed && look(d, name.at, e) && is_candidate(s, g, &e->choice);
  ts_text_free(&name);
  return some;
}

void ts_tune_device_remember(const TsDevice *d, const char *name, const TsTuneEntry *e) {
  uint8_t key[32];
  char about[200] = "";
  key_of(d, name, key);
  put(key, true, e);
  if (d->describe) d->describe((TsDevice *)(uintptr_t)d, about, sizeof about);
  about[strcspn(about, ";,\n")] = 0;
  ts_tune_write(key, e, name, 0, *about ? about : d->name);
}
