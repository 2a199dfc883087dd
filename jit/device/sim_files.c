/* See jit/device/sim_files.h. */
#include "jit/device/sim_files.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/tile/marks.h"
#include "ir/tile/pass/stages.h"
#include "jit/gpu/gpu.h"
#include "jit/gpu/roles.h"

/* ---- code */
static bool has_roles(const TsTile *k) { return k->form == TS_FORM_explicit && k->threads; }

static void keep_text(const TsTile *k, unsigned number, const char *more) {
  bool roles = has_roles(k);
  const char *folder = getenv("TESSERA_SIM_PTX");
  const TsTarget *oldest = ts_target_with(TS_UNIT_mma),
                 *own = roles ? ts_target(k->target) : oldest;
  TsGpuCode code = {0};
  TsGpuRoles info;
  TsText text = {0};
  TsError err;
  char path[512];
  if (!folder || !own || strcmp(own->cpu, oldest->cpu)) return;
  snprintf(path, sizeof path, "%s/%s-%u%s.ptx", folder, k->name, number, more);
  bool made = roles ? !ts_gpu_roles_text(k, false, &info, &text, &err)
                    : !ts_gpu_code(k, oldest, true, &code, &err);
  FILE *f = fopen(path, "we");
  if (f) fputs(!made ? err.message : roles ? text.at : code.image, f), fclose(f);
  ts_gpu_code_free(&code);
  ts_text_free(&text);
}

void ts_sim_files_code(const TsTile *k) {
  static atomic_uint count;
  TsError err;
  if (!getenv("TESSERA_SIM_PTX")) return;
  unsigned number = atomic_fetch_add(&count, 1);
  TsTile *marked = ts_tile_stages(k, false, &err);
  keep_text(k, number, "");
  if (marked) keep_text(marked, number, "-marks");
  ts_tile_free(marked);
}

/* ---- launches */
enum { LARGE = 4 << 20 /* bytes of its memory: an emulator would take minutes */ };

struct TsSimFile {
  FILE *to;
  const TsTile *k;
  void *const *at;
  const int64_t *dim;
};

static void write_memory(const TsSimFile *f) {
  for (int i = 0; i < f->k->nparam; i++) {
    int64_t below, above;
    ts_tile_reach(&f->k->param[i]->type, f->dim, &below, &above);
    fwrite((const char *)f->at[i] - below, 1, (size_t)(below + above), f->to);
  }
}

static int64_t memory_of(const TsTile *k, const int64_t *dim) {
  int64_t all = 0, below, above;
  for (int i = 0; i < k->nparam; i++) {
    ts_tile_reach(&k->param[i]->type, dim, &below, &above);
    all += below + above;
  }
  return all;
}

static void write_lines(const TsSimFile *f, const TsTarget *t, const TsGpuCode *code,
                        const int64_t *rounds) {
  const TsTile *k = f->k;
  TsTileMark mark[TS_TILE_MARKS];
  fprintf(f->to, "target %s\nobject %zu\n", t->name, code->size);
  for (int i = 0; i < code->nphase; i++) {
    const TsGpuPhase *p = &code->phase[i];
    fprintf(f->to, "phase %s %d %" PRId64 " %u\n", p->name, p->threads,
            (rounds[i] + p->rounds - 1) / p->rounds, p->shared);
  }
  for (int i = 0; i < k->nparam; i++) {
    int64_t below, above;
    ts_tile_reach(&k->param[i]->type, f->dim, &below, &above);
    fprintf(f->to, "memory %" PRIuPTR " %" PRId64 " %" PRId64 " %s\n", (uintptr_t)f->at[i],
            below, above, ts_dtype_name((TsDtype)k->param[i]->type.dtype));
  }
  for (int i = 0; i < code->nscratch; i++)
    fprintf(f->to, "scratch %" PRId64 "\n", ts_tile_dense_bytes(&code->scratch[i], f->dim));
  for (int i = 0; i < k->ndim; i++) fprintf(f->to, "dim %" PRId64 "\n", f->dim[i]);
  if (k->marks) fprintf(f->to, "marks %d\n", 1 + ts_tile_marks(k, mark));
  fputc('\n', f->to);
}

static TsSimFile *new_file(const char *folder, const TsTile *k, TsError *err) {
  static atomic_uint count;
  char path[512];
  TsSimFile *f = calloc(1, sizeof *f);
  if (!f) return ts_error_memory(err), NULL;
  snprintf(path, sizeof path, "%s/%s-%u.launch", folder, k->name, atomic_fetch_add(&count, 1));
  if ((f->to = fopen(path, "we"))) return f;
  ts_error_set(err, TS_ERR_io, "%s cannot be written", path);
  return free(f), NULL;
}

int ts_sim_file_begin(TsDevice *d, const TsTile *k, bool aligned, void *const *at,
                      const int64_t *dim, TsSimFile **out, TsError *err) {
  const char *folder = getenv("TESSERA_SIM_OBJECTS");
  const TsTarget *t = ts_target_of(d);
  TsGpuCode code = {0};
  int64_t rounds[TS_GPU_PHASES];
  *out = NULL;
  if (!folder || !t->object || has_roles(k) || memory_of(k, dim) > LARGE) return 0;
  if (ts_gpu_code(k, t, aligned ? TS_GPU_aligned : TS_GPU_loose, &code, err)) return -1;
  if (!ts_gpu_rounds(&code, dim, rounds) && (*out = new_file(folder, k, err))) {
    (*out)->k = k, (*out)->at = at, (*out)->dim = dim;
    write_lines(*out, t, &code, rounds);
    fwrite(code.image, 1, code.size, (*out)->to);
    write_memory(*out);
  }
  ts_gpu_code_free(&code);
  return *out ? 0 : -1;
}

void ts_sim_file_end(TsSimFile *f, int failed) {
  if (f->to && !failed) write_memory(f);
  if (f->to) fclose(f->to);
  free(f);
}
