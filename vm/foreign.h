/* C functions on tensors, called through libffi. A signature says in text what C's prototype
 * says, and beside it what each parameter gets:
 *
 *   "f64 j0(each f64 x)"                              for each element
 *   "void blur(const f32 *x, f32 *y, i64 n = x.numel, f32 width = 1.5)"
 *   "u64 crc32(u64 crc = 0, const u8 *data, u32 n = data.numel)"
 *
 *   const T *name       the next input: a tensor of dtype T, its elements row-major
 *   T *name             the next result, row-major and zero before the call
 *   each T name         an element of the next input; inputs broadcast, and the function is
 *                       called once for each element of the result, which it returns
 *   T name              a number, which the call's options have to give
 *   T name = 1.5        the same with a default
 *   T name = x.numel    also x.nbytes, x.ndim, x.shape[0], x.shape[-1]; x: any pointer
 *
 * T is a dtype, u16, u32 or u64, or C's name of one (float, int32_t, unsigned long, size_t).
 * Before the parameters stands what is returned: void, T (a result, before those behind
 * pointers), or status T, where anything but 0 is a failure. A name behind it has to be the
 * symbol's. Libraries stay open. */
#ifndef TS_VM_FOREIGN_H
#define TS_VM_FOREIGN_H

#include "vm/core/tensor.h"

enum { TS_FOREIGN_PARAMS = 16 };

typedef enum TsForeignKind {
  TS_FOREIGN_in,
  TS_FOREIGN_out,
  TS_FOREIGN_each,
  TS_FOREIGN_option,
  TS_FOREIGN_size
} TsForeignKind;

typedef enum TsForeignSize {
  TS_FOREIGN_numel,
  TS_FOREIGN_nbytes,
  TS_FOREIGN_ndim,
  TS_FOREIGN_dim
} TsForeignSize;

typedef struct TsForeignParam {
  char name[32];
  uint8_t kind, type; /* type: in vm/foreign.c's table */
  TsDtype dtype;      /* of tensors */
  bool has_preset;
  double preset; /* of an option */
  uint8_t size;  /* of a size: which, of which parameter, along which axis */
  int of, axis;
} TsForeignParam;

typedef struct TsForeign TsForeign;

/* library: a path, a file name ("libz.so.1"), a short name ("m"), or NULL for what the
 * program has. NULL with the error. */
TsForeign *ts_foreign_open(TsError *err, const char *library, const char *symbol,
                           const char *signature);
TsForeign *ts_foreign_ref(TsForeign *f);
void ts_foreign_unref(TsForeign *f); /* NULL is fine */

const char *ts_foreign_name(const TsForeign *f);
int ts_foreign_params(const TsForeign *f, const TsForeignParam **param);
int ts_foreign_nresult(const TsForeign *f);

/* Result types from the inputs' and, where nshape > 0, from the given shapes: one for each
 * result behind a pointer, which otherwise has the shape of the first input. */
int ts_foreign_infer(const TsForeign *f, TsError *err, int nin, const TsMeta *const *in,
                     int nshape, const TsMeta *shape, TsMeta *out);

/* option[i]: of parameter i, where it is an option. Checks them, calls; results get one
 * reference each. */
int ts_foreign_call(const TsForeign *f, TsContext *c, int nin, TsTensor *const *in,
                    const double *option, int nout, const TsMeta *const *type, TsTensor **out);
/* An option's value that its type cannot hold is an error. */
int ts_foreign_check(const TsForeign *f, TsError *err, const double *option);

#endif
