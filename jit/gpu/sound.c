/* What comes from disk beside code, before it is used: a hash says that it is what was
 * written, not who wrote it. Whatever decides how much is launched, read or cleared lies
 * within what the kernel and the target allow; so a forged entry is none, and compiled
 * again. */
#include <string.h>

#include "jit/gpu/gpu.h"
#include "jit/gpu/roles.h"

enum { WARP = 32, MOST_THREADS = 1024, MOST_CLUSTER = 16, MOST_BOX = 256, MOST_PANELS = 64 };

static bool is_name(const char *name, size_t room) {
  return *name && memchr(name, 0, room) != NULL;
}

/* Rounds divide, so there is one at least. */
bool ts_gpu_phase_sound(const TsGpuPhase *p, const TsTarget *t) {
  return is_name(p->name, sizeof p->name) && p->threads > 0 && p->threads <= MOST_THREADS &&
         p->rounds > 0 && p->rounds <= MOST_THREADS && p->cluster <= MOST_CLUSTER &&
         (int64_t)p->shared <= (int64_t)t->shared_bytes;
}

/* As jit/emit/roles/value.c places it. -1: a size that is not known. */
static int64_t scratch_of(const TsTile *k) {
  int64_t n = 0;
  for (const TsTileStmt *s = k->body->first; s; s = s->next) {
    if (s->op != TS_TILE_alloc || s->out[0]->type.space != TS_SPACE_scratch) continue;
    const TsTileType *t = &s->out[0]->type;
    for (int i = 0; i < t->rank; i++)
      if (ts_tile_dim_is(t->dim[i])) return -1;
    n += (ts_tile_numel(t) * ts_dtypes[t->dtype].nbytes + 15) / 16 * 16;
  }
  return n;
}

static bool map_sound(const TsGpuMap *m, const TsTile *k) {
  bool pattern = !m->swizzle || m->swizzle == 32 || m->swizzle == 64 || m->swizzle == 128;
  return m->param >= 0 && m->param < k->nparam && k->param[m->param]->type.rank >= 2 &&
         m->rows > 0 && m->rows <= MOST_BOX && m->cols > 0 && m->cols <= MOST_BOX &&
         m->panels >= 0 && m->panels <= MOST_PANELS && pattern;
}

bool ts_gpu_roles_sound(const TsGpuRoles *r, const TsTile *k, const TsTarget *t) {
  uint8_t dependent;
  memcpy(&dependent, &r->dependent, 1); /* a bool has two values */
  if (dependent > 1 || !is_name(r->name, sizeof r->name)) return false;
  if (r->nparam != k->nparam || r->ndim != k->ndim || r->ndim < 1) return false;
  if (r->nmap < 0 || r->nmap > TS_GPU_MAPS || r->threads != k->threads) return false;
  if (r->threads < WARP || r->threads > MOST_THREADS || r->threads % WARP) return false;
  if (r->cluster != (k->cluster > 1 ? k->cluster : 1) || r->scratch != scratch_of(k))
    return false;
  if ((int64_t)r->shared > (int64_t)t->shared_bytes) return false;
  for (int i = 0; i < r->nmap; i++)
    if (!map_sound(&r->map[i], k)) return false;
  return true;
}
