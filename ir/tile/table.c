/* The words of Tile IR: pointwise rows of the operator table and rows of ir/tile/tile.def. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/tile.h"
#include "lib/text.h"

enum { NROW = TS_TILE_END - TS_OP_COUNT, NSLOT = 1024 };

static const struct {
  const char *name, *operands, *attrs;
  int nregion;
} row[NROW] = {
#define TILE(name, operands, regions, attrs, help) {#name, operands, attrs, regions},
#include "ir/tile/tile.def"
#undef TILE
};

static struct {
  TsAttrSpec attr[TS_MAX_ATTR];
  int n;
} spec[NROW];
static int slot[NSLOT]; /* by the hash of the word: 1 + the operation, 0 is free */

static bool pointwise(int op) {
  return op < TS_OP_COUNT && ts_op_info((TsOp)op)->cls == TS_CLASS_POINTWISE;
}

/* Rows of ir/tile/tile.def come first, so that sum is the tile's and not an operator's. */
static void fill(void) {
  TS_ASSERT(TS_TILE_END * 2 <= NSLOT);
  for (int k = 0; k < TS_TILE_END; k++) {
    int op = (k + TS_OP_COUNT) % TS_TILE_END;
    if (op < TS_OP_COUNT && !pointwise(op)) continue;
    const char *word = ts_tile_op_name(op);
    unsigned i = ts_text_hash(word, strlen(word)) % NSLOT;
    while (slot[i]) i = (i + 1) % NSLOT;
    slot[i] = op + 1;
  }
  for (int i = 0; i < NROW; i++) spec[i].n = ts_attr_specs(row[i].attrs, spec[i].attr);
}

static void once(void) {
  static pthread_once_t filled = PTHREAD_ONCE_INIT;
  pthread_once(&filled, fill);
}

const char *ts_tile_op_name(int op) {
  return op < TS_OP_COUNT ? ts_op_info((TsOp)op)->name : row[op - TS_OP_COUNT].name;
}

int ts_tile_op_find(const char *word, int len) {
  once();
  for (unsigned i = ts_text_hash(word, (size_t)len) % NSLOT; slot[i]; i = (i + 1) % NSLOT) {
    const char *name = ts_tile_op_name(slot[i] - 1);
    if (strlen(name) == (size_t)len && !memcmp(name, word, (size_t)len)) return slot[i] - 1;
  }
  return TS_TILE_END;
}

const TsAttrSpec *ts_tile_op_attrs(int op, int *n) {
  once();
  if (op < TS_OP_COUNT) return *n = 0, NULL;
  *n = spec[op - TS_OP_COUNT].n;
  return spec[op - TS_OP_COUNT].attr;
}

int ts_tile_op_regions(int op) { return op < TS_OP_COUNT ? 0 : row[op - TS_OP_COUNT].nregion; }

int ts_tile_op_operands(int op, bool *more) {
  if (op < TS_OP_COUNT) {
    const TsOpInfo *o = ts_op_info((TsOp)op);
    *more = false;
    return o->nin + o->npar;
  }
  const char *s = row[op - TS_OP_COUNT].operands;
  *more = strchr(s, '+') != NULL;
  return atoi(s);
}
