/* Persistent programs on NVIDIA's GPUs: their code, the table that it walks, launches. What
 * lies where jit/gpu/persistent.h says. */
#include <stdlib.h>
#include <string.h>

#include "jit/gpu/persistent.h"
#include "jit/persistent/persistent.h"

enum { LINE = 128 };

typedef struct Code {
  TsDevice *d;
  TsGpuPersistent code;
  void *module, *kernel;
  char *table; /* on the device, as the others; behind it words, waits and what is ahead */
  int64_t room;
  char *
      counters; /* the word that says who was waited for in vain, then a line on the counters */
  int64_t counters_room;
  uint64_t targets;
  int32_t launch;
} Code;

/* ---- the table, made on the host */
typedef struct Table {
  char *at; /* NULL: only counted */
  uint64_t base, used;
} Table;

/* Bytes from the next line on. Their address on the device. */
static uint64_t put(Table *t, const void *data, size_t nbytes) {
  uint64_t at = (t->used + LINE - 1) / LINE * LINE;
  if (t->at && nbytes) memcpy(t->at + at, data, nbytes);
  t->used = at + nbytes;
  return t->base + at;
}

static void set(Table *t, uint64_t row, int byte, uint64_t v, size_t nbytes) {
  if (t->at) memcpy(t->at + (row - t->base) + byte, &v, nbytes);
}

static uint64_t put_words(Code *c, Table *t, const TsPersistentTask *task, TsError *err) {
  struct {
    uint64_t word[96];
    _Alignas(LINE) char map[TS_GPU_MAPS][TS_TENSOR_MAP_NBYTES];
  } all;
  const TsGpuTaskCode *code = &c->code.code[task->code];
  int n = 0, nscratch = task->ntouch - task->k->nparam;
  if (task->k->nparam + nscratch + task->k->ndim > 96)
    return ts_error_set(err, TS_ERR_device, "@%.40s has too many arguments", task->k->name), 0;
  memset(&all, 0, sizeof all);
  for (int i = 0; i < task->k->nparam; i++) all.word[n++] = task->arg[i];
  for (int i = 0; i < nscratch; i++) all.word[n++] = task->scratch[i];
  for (int i = 0; i < task->k->ndim; i++) all.word[n++] = (uint64_t)task->dim[i];
  uint64_t at = put(t, all.word, sizeof *all.word * (size_t)n);
  for (int i = 0; code->roles && i < code->info.nmap; i++) {
    const TsGpuMap *m = &code->info.map[i];
    if (t->at && ts_gpu_roles_map(c->d, task->k, m, (void *)(uintptr_t)task->arg[m->param],
                                  task->dim, all.map[i], err))
      return 0;
    put(t, all.map[i], sizeof all.map[i]);
  }
  return at;
}

static uint64_t put_waits(const TsPersistent *p, Table *t, const TsPersistentTask *task) {
  uint64_t first = put(t, NULL, 0);
  t->used += 16 * (uint64_t)task->nwait;
  for (int i = 0; i < task->nwait; i++) {
    const TsPersistentWait *w = &task->wait[i];
    const TsPersistentTask *of = &p->task[w->task];
    uint64_t range =
        w->range ? put(t, w->range, sizeof *w->range * 2 * (size_t)task->turns) : 0;
    set(t, first + 16 * (uint64_t)i, 0, (uint64_t)of->counter, 4);
    set(t, first + 16 * (uint64_t)i, 4, (uint64_t)of->npiece, 4);
    set(t, first + 16 * (uint64_t)i, 8, range, 8);
  }
  return first;
}

static int fill(Code *c, const TsPersistent *p, Table *t, TsError *err) {
  put(t, NULL, 0);
  t->used += (uint64_t)p->ntask * TS_GPU_TASK_BYTES;
  for (int i = 0; i < p->ntask; i++) {
    const TsPersistentTask *k = &p->task[i];
    uint64_t row = t->base + (uint64_t)i * TS_GPU_TASK_BYTES;
    uint64_t words = put_words(c, t, k, err);
    if (!words) return -1;
    set(t, row, TS_GPU_TASK_code, (uint64_t)k->code, 4);
    set(t, row, TS_GPU_TASK_turns, (uint64_t)k->turns, 4);
    set(t, row, TS_GPU_TASK_first, (uint64_t)k->first, 4);
    set(t, row, TS_GPU_TASK_counter, (uint64_t)k->counter, 4);
    set(t, row, TS_GPU_TASK_piece, (uint64_t)k->piece, 4);
    set(t, row, TS_GPU_TASK_nwait, (uint64_t)k->nwait, 4);
    set(t, row, TS_GPU_TASK_nahead, (uint64_t)k->nahead, 4);
    const TsGpuTaskCode *code = &c->code.code[k->code];
    uint64_t nword = (uint64_t)(k->ntouch + k->k->ndim) * 8;
    set(t, row, TS_GPU_TASK_nmap, code->roles ? (uint64_t)code->info.nmap : 0, 4);
    set(t, row, TS_GPU_TASK_maps, words + (nword + LINE - 1) / LINE * LINE, 8);
    set(t, row, TS_GPU_TASK_words, words, 8);
    set(t, row, TS_GPU_TASK_waits, put_waits(p, t, k), 8);
    set(t, row, TS_GPU_TASK_ahead, put(t, k->ahead, sizeof *k->ahead * (size_t)k->nahead), 8);
  }
  put(t, NULL, 0);
  c->targets = t->base + t->used;
  for (int i = 0; i < p->ntask; i++)
    for (int k = 0; k < p->task[i].npiece; k++) {
      int32_t n = (int32_t)ts_persistent_piece_turns(&p->task[i], k);
      if (t->at) memcpy(t->at + t->used, &n, sizeof n);
      t->used += sizeof n;
    }
  return 0;
}

/* ---- memory of the device */
static int make_room(Code *c, char **at, int64_t *room, int64_t nbytes, TsError *err) {
  if (*at && *room >= nbytes) return 0;
  if (*at) c->d->free(c->d, *at, *room);
  *at = c->d->alloc(c->d, nbytes, err);
  *room = *at ? nbytes : 0;
  return *at ? 0 : -1;
}

/* Counters of other tasks begin anew. */
static int zero(Code *c, const TsPersistent *p, TsError *err) {
  int64_t n = LINE + 4 * (int64_t)p->ncounter;
  void *zeros = calloc(1, (size_t)n);
  int failed =
      zeros ? make_room(c, &c->counters, &c->counters_room, n, err) : ts_error_memory(err);
  if (!failed) failed = c->d->upload(c->d, c->counters, zeros, n, err);
  free(zeros);
  c->launch = 0;
  return failed;
}

static int load(void *of, const TsPersistent *p, TsError *err) {
  Code *c = of;
  Table t = {.base = LINE};
  if (fill(c, p, &t, err) || make_room(c, &c->table, &c->room, (int64_t)t.used, err)) return -1;
  int64_t nbytes = (int64_t)t.used;
  t = (Table){.at = calloc(1, (size_t)nbytes), .base = (uintptr_t)c->table};
  int failed = t.at ? fill(c, p, &t, err) : ts_error_memory(err);
  if (!failed) failed = c->d->upload(c->d, c->table, t.at, nbytes, err);
  free(t.at);
  return failed ? -1 : zero(c, p, err);
}

/* ---- life */
static void release(void *of) {
  Code *c = of;
  if (c->module) c->d->run->module_free(c->d, c->module);
  if (c->table) c->d->free(c->d, c->table, c->room);
  if (c->counters) c->d->free(c->d, c->counters, c->counters_room);
  free(c);
}

static int compile(Code *c, const TsPersistent *p, TsError *err) {
  TsText ptx = {0};
  int failed = ts_gpu_persistent_text(p, ts_target_of(c->d), &c->code, &ptx, err);
  if (!failed)
    failed = c->d->run->module_new(c->d, ptx.at, ptx.len + 1, &c->module, err) ||
             c->d->run->kernel(c->d, c->module, TS_GPU_PERSISTENT_NAME, (int)c->code.shared,
                               &c->kernel, err);
  ts_text_free(&ptx);
  return failed ? -1 : 0;
}

static void *open(TsDevice *d, const TsPersistent *p, int64_t *resident, TsError *err) {
  Code *c = calloc(1, sizeof *c);
  TsKernelFacts facts;
  if (!c) return ts_error_memory(err), NULL;
  c->d = d;
  if (!d->run->facts)
    ts_error_set(err, TS_ERR_device, "%s does not say what it holds", d->name);
  if (!d->run->facts || compile(c, p, err) ||
      d->run->facts(d, c->kernel, c->code.threads, (uint32_t)c->code.shared, &facts, err))
    return release(c), NULL;
  *resident = (int64_t)facts.blocks * d->processors;
  return c;
}

static int launch(void *of, const TsPersistent *p, TsError *err) {
  Code *c = of;
  uint64_t table = (uintptr_t)c->table, failed = (uintptr_t)c->counters,
           counters = failed + LINE;
  int32_t ntask = p->ntask, blocks = (int32_t)p->blocks;
  if (c->launch == INT16_MAX && zero(c, p, err)) return -1; /* long before numbers run out */
  c->launch++;
  void *args[] = {&table, &counters, &c->targets, &failed, &ntask, &blocks, &c->launch};
  TsLaunch l = {.kernel = c->kernel,
                .grid = {(uint32_t)blocks, 1, 1},
                .block = {(uint32_t)c->code.threads, 1, 1},
                .shared = (uint32_t)c->code.shared,
                .together = true,
                .args = args,
                .pointers = 4,
                .words = 3};
  return c->d->run->launch(c->d, &l, err);
}

/* Waits for the device. */
static int look(void *of, const TsPersistent *p, TsError *err) {
  Code *c = of;
  int32_t task = 0;
  if (c->d->download(c->d, &task, c->counters, sizeof task, err)) return -1;
  if (!task) return 0;
  if (zero(c, p, err)) return -1;
  return ts_error_set(err, TS_ERR_device, "task %d of a persistent kernel waited in vain",
                      task - 1);
}

const TsPersistentKind ts_persistent_nvidia = {
    .open = open, .load = load, .launch = launch, .look = look, .close = release};
