/* The words of Graph IR: operators of the table and nodes of ir/graph/graph.def. */
#include <pthread.h>
#include <string.h>

#include "ir/graph/graph.h"
#include "lib/text.h"

enum { NNODE = TS_NODE_END - TS_OP_COUNT, NSLOT = 1024 };

static const struct {
  const char *name, *attrs;
} node[NNODE] = {
#define NODE(name, attrs, help) {#name, attrs},
#include "ir/graph/graph.def"
#undef NODE
};

static struct {
  TsAttrSpec attr[TS_MAX_ATTR];
  int n;
} spec[NNODE];
static int slot[NSLOT]; /* by the hash of the word: 1 + the operator, 0 is free */

static const char *word_of(int op) {
  return op < TS_OP_COUNT ? ts_op_info((TsOp)op)->name : node[op - TS_OP_COUNT].name;
}

static void fill(void) {
  TS_ASSERT(TS_NODE_END * 2 <= NSLOT);
  for (int op = 0; op < TS_NODE_END; op++) {
    const char *word = word_of(op);
    unsigned i = ts_text_hash(word, strlen(word)) % NSLOT;
    while (slot[i]) i = (i + 1) % NSLOT;
    slot[i] = op + 1;
  }
  for (int i = 0; i < NNODE; i++) spec[i].n = ts_attr_specs(node[i].attrs, spec[i].attr);
}

static void once(void) {
  static pthread_once_t filled = PTHREAD_ONCE_INIT;
  pthread_once(&filled, fill);
}

int ts_node_find(const char *word, int len) {
  once();
  for (unsigned i = ts_text_hash(word, (size_t)len) % NSLOT; slot[i]; i = (i + 1) % NSLOT) {
    const char *name = word_of(slot[i] - 1);
    if (strlen(name) == (size_t)len && !memcmp(name, word, (size_t)len)) return slot[i] - 1;
  }
  return TS_NODE_END;
}

const TsAttrSpec *ts_node_attrs(int op, int *n) {
  once();
  if (op < TS_OP_COUNT) return *n = ts_op_info((TsOp)op)->nattr, ts_op_info((TsOp)op)->attr;
  *n = spec[op - TS_OP_COUNT].n;
  return spec[op - TS_OP_COUNT].attr;
}
