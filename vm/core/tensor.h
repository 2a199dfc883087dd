/* Tensors: a dtype and shape, strides, and counted storage.
 *
 * A storage holds the same bytes on one or several devices. `valid` has a bit
 * for each device whose copy is current. Reading on a device makes its copy valid
 * (from the host's, or through the host's); writing leaves only the writer's
 * valid. No bit: nothing was written yet. A copy is made when it is first needed, so
 * what a GPU makes and reads has no bytes on the host. Views share the storage, so
 * residency is a matter of storages alone. */
#ifndef TS_VM_TENSOR_H
#define TS_VM_TENSOR_H

#include "lib/mesh.h"
#include "lib/shape.h"
#include "vm/core/context.h"

typedef struct TsCopy {
  struct TsCopy *next;
  void *at; /* NULL: not made yet */
  int device;
} TsCopy;

enum { TS_STORAGE_INLINE = 4096 }; /* bytes that may stand behind a storage's header */

typedef struct TsStorage {
  int32_t refs;
  uint16_t valid;    /* bit d: the copy on device d is current */
  uint16_t recorded; /* tensors of it that records of the tape hold (vm/core/tape.h) */
  int64_t nbytes;
  void *host;     /* the copy on cpu:0, or NULL: not made yet */
  TsCopy *copies; /* on other devices */
  TsContext *ctx;
  void (*release)(void *arg); /* of memory that is not ours, else NULL */
  void *release_arg;          /* without release the id of its first tensor: when it was made */
  uint32_t version;           /* changes in place so far: who kept a value can tell */
  uint8_t symbolic : 1;       /* of a value in a graph: there are no bytes */
  uint8_t dated : 1;          /* made around memory of others: when, stands behind the header */
  uint8_t lost : 1;           /* lay over a file that has changed (vm/core/mapped.h) */
  uint8_t remote : 1; /* made on another device: its first copy stands behind the header */
  uint8_t raw : 1;  /* of bools that the program writes by address: any byte may stand there */
  uint8_t leaf : 1; /* of a tensor whose requires_grad was set */
  uint8_t computed : 1; /* a record of the tape has made what it holds, or some of it */
  uint8_t taped : 1;   /* and what it holds as a whole is known to the tape (vm/tape_write.c) */
  uint8_t pending : 1; /* of calls that are put off: no bytes yet (vm/core/defer.h) */
  uint8_t away : 1;    /* another process has what it holds (vm/mesh/away.h) */
  uint8_t lent : 1;    /* its bytes lie on another device than its copy says (ts_tensor_lent) */
  uint8_t
      snapped : 1; /* a snapshot will read it: whoever writes asks first (vm/core/snapshot.h) */
  uint16_t held;   /* calls put off read it: whoever writes asks first (vm/core/defer.h) */
} TsStorage;

/* Fields stand in the order of use, so that small tensors touch few cache lines. */
typedef struct TsTensor {
  int32_t refs;
  uint8_t contiguous;
  uint8_t requires_grad;
  uint8_t apart;    /* shows elements without how they were made: detach() and the like */
  uint8_t recorded; /* the tape's own */
  TsStorage *storage;
  union {
    int64_t offset; /* bytes from the storage's start; pending: which value of its run */
    uint64_t known; /* of a symbol: until when it knows what changed (vm/capture_state.h) */
  };
  uint64_t id;  /* unique in the context */
  void *origin; /* symbolic: its TsVal; pending: its run; else the tape's record of how it was
                     made, or NULL */
  struct TsTensor *grad;       /* sum of the gradients that arrived, or NULL */
  TsMeta meta;                 /* meta.device: where operators on it run */
  int64_t stride[TS_MAX_RANK]; /* in elements */
} TsTensor;

/* A bool is a byte 0 or 1. Of bytes from outside whatever is not 0 becomes 1 where they enter:
 * code of all tiers may then count, mask or compare them. */
bool ts_bools_are_tidy(const void *at, int64_t n);
void ts_bools_tidy(void *at, int64_t n);
/* The program writes t's bytes from now on as it likes. */
void ts_tensor_expose(TsTensor *t);

/* All return a tensor with one reference, or NULL with the error filled. */
/* Row-major, contents unspecified, on m's device. */
TsTensor *ts_tensor_new(TsContext *c, const TsMeta *m);
/* The same whose bytes on the device are at an address that is set and changed by ts_tensor_place,
 * NULL while there is none: a function's places. What it holds is forgotten then. */
TsTensor *ts_tensor_placed(TsContext *c, const TsMeta *m, int device);
void ts_tensor_place(TsTensor *t, void *at);
/* x, which lies on another device whose memory this one reaches (devices/meet.h), as if it were
 * here: to be read while nobody changes it. */
TsTensor *ts_tensor_lent(TsContext *c, TsTensor *x, int device);
/* Memory of a device; without room once more after a collection. NULL with the error. */
void *ts_tensor_room(TsContext *c, int device, int64_t nbytes);
TsTensor *ts_tensor_view(TsTensor *x, const TsMeta *m, const int64_t *stride, int64_t offset);
TsTensor *ts_tensor_number(TsContext *c, double value); /* weak 0-d f64 or, if whole, i64 */
/* When the memory of t was made: the id of its first tensor. */
uint64_t ts_tensor_made(const TsTensor *t);
TsTensor *ts_tensor_wrap(TsContext *c, const TsMeta *m, void *host, void (*release)(void *),
                         void *arg);
/* A value of a graph that is being captured: type and origin, no bytes. Reading fails. */
TsTensor *ts_tensor_symbol(TsContext *c, const TsMeta *m, void *origin);
/* Row-major form of x: x itself with another reference, or a copy. */
TsTensor *ts_tensor_contiguous(TsContext *c, TsTensor *x);
/* A row-major copy with storage of its own. */
TsTensor *ts_tensor_copy(TsContext *c, TsTensor *x);
/* x with another dtype, row-major; x itself where nothing changes. */
TsTensor *ts_tensor_cast(TsContext *c, TsTensor *x, TsDtype d);
/* x on another device: a tensor whose storage has a valid copy there. */
TsTensor *ts_tensor_to(TsContext *c, TsTensor *x, int device);

/* Its elements are another process's (vm/mesh/away.h): it has a type, and can be given on. */
static inline bool ts_tensor_is_away(const TsTensor *t) {
  return t->meta.device == TS_DEVICE_AWAY;
}

/* What is only planned with has a type and a layout, but no elements (vm/mesh/planned.c): its
 * storage has this release. */
void ts_storage_free_plan(void *plan);
static inline bool ts_tensor_is_planned(const TsTensor *t) {
  return t->storage->release == ts_storage_free_plan;
}

static inline TsTensor *ts_tensor_ref(TsTensor *t) {
  t->refs++;
  return t;
}
void ts_tensor_unref(TsTensor *t); /* NULL is fine */

/* The first element for host reads (and, with _write, for host writes). NULL
 * with the error filled if bytes had to move and could not. */
void *ts_tensor_read(TsTensor *t);
void *ts_tensor_write(TsTensor *t);
/* Whether the parts of a storage on a mesh were written, by a view of others, since the host read
 * them; set by whoever knows of parts (vm/mesh/parts.c). */
extern bool (*ts_tensor_parts_changed)(const TsStorage *s);
/* The same on another device: the address there. whole: every byte of the storage is about to
 * be written, so the old ones are not moved. */
void *ts_tensor_read_on(TsTensor *t, int device);
void *ts_tensor_write_on(TsTensor *t, int device, bool whole);

/* Whether `from`, which nobody but the caller reads, can give what it holds to `to` without a copy:
 * both are all of their storages, of one type and place, and no bytes of others. What the storage of
 * `to` keeps is that: views of it see the new elements, as if they had been copied. */
bool ts_tensor_exchanges(const TsTensor *to, const TsTensor *from);
/* Does so; `from` holds what `to` had. Of tensors of which that was true, and behind ts_defer_touch
 * of `to`. It cannot fail. */
void ts_tensor_exchange(TsTensor *to, TsTensor *from);

/* Whether t can lie elsewhere: nothing but t itself sees its memory. */
bool ts_tensor_moves(const TsTensor *t);
/* t lies where `at` does, a view of its type, where that was true; `at` has the memory of t from then
 * on. It cannot fail. */
void ts_tensor_move(TsTensor *t, TsTensor *at);

static inline int64_t ts_tensor_numel(const TsTensor *t) { return ts_meta_numel(&t->meta); }
static inline TsDtype ts_tensor_dtype(const TsTensor *t) { return (TsDtype)t->meta.dtype; }
/* Of a bare number that is no symbol. */
static inline double ts_tensor_number_value(const TsTensor *t) {
  const void *at = (const char *)t->storage->host + t->offset;
  return t->meta.dtype == TS_DT_i64 ? (double)*(const int64_t *)at : *(const double *)at;
}

/* Element at a row-major index as double, int64 or complex parts. */
double ts_tensor_get(TsTensor *t, int64_t index);
int64_t ts_tensor_get_int(TsTensor *t, int64_t index);
void ts_tensor_get_complex(TsTensor *t, int64_t index, double part[2]);

/* FNV-1a, 64 bits, over the logical elements in row-major order, little endian,
 * NaNs made one value; independent of strides and device. */
int ts_tensor_hash(TsContext *c, TsTensor *t, uint64_t *hash);

#endif
