/* A module that multiplies one cooperative matrix of each type, as kernels do it
 * (jit/emit/simt/cooperative.c): no query of OpenCL's or Level Zero's tells which sizes a
 * driver has, so it is asked to make code of this one before a device is given such kernels.
 * Numbers are those of the specification of SPIR-V and its extensions. */
#include "devices/driver/spirv.h"

#include "lib/error.h"

enum { /* instructions */
       EXTENSION = 10,
       MEMORY_MODEL = 14,
       ENTRY_POINT = 15,
       EXECUTION_MODE = 16,
       CAPABILITY = 17,
       TYPE_VOID = 19,
       TYPE_INT = 21,
       TYPE_FLOAT = 22,
       TYPE_POINTER = 32,
       TYPE_FUNCTION = 33,
       CONSTANT = 43,
       FUNCTION = 54,
       PARAMETER = 55,
       FUNCTION_END = 56,
       LABEL = 248,
       RETURN = 253,
       TYPE_MATRIX = 4456,
       LOAD = 4457,
       STORE = 4458,
       MULTIPLY_ADD = 4459,
};

enum { ROWS = 8, COLUMNS = 16, DEEP = 32, SUBGROUP = 3, LANES = 16, KINDS = 3 };
enum { OF_SINGLE = KINDS, OF_WHOLE, PLACES };

/* Of one type: factors, sums, steps of k, and which operands have signs. */
enum { FLOAT, BRAIN, WHOLE };
static const struct {
  int factor, sum, deep;
  uint32_t has_signs;
} kind[KINDS] = {{FLOAT, FLOAT, 16, 0}, {BRAIN, FLOAT, 16, 0}, {WHOLE, WHOLE, DEEP, 15}};

typedef struct Words {
  uint32_t *at;
  size_t n;
  uint32_t id; /* the next one that nobody has */
} Words;

static void put(Words *w, uint32_t word) {
  TS_ASSERT(w->n < TS_SPIRV_PROBE_WORDS);
  w->at[w->n++] = word;
}

static void say(Words *w, int op, int n, const uint32_t *in) {
  put(w, (uint32_t)(n + 1) << 16 | (uint32_t)op);
  for (int i = 0; i < n; i++) put(w, in[i]);
}
#define SAY(op, ...)                                                                           \
  say(w, op, (int)(sizeof(uint32_t[]){__VA_ARGS__} / sizeof(uint32_t)),                        \
      (const uint32_t[]){__VA_ARGS__})

/* Letters from the lowest byte on, a zero behind the last. */
static int letters(uint32_t *to, const char *text) {
  int n = 0, i = 0;
  do {
    if (!(i % 4)) to[n++] = 0;
    to[n - 1] |= (uint32_t)(unsigned char)text[i] << 8 * (i % 4);
  } while (text[i++]);
  return n;
}

static void head(Words *w, uint32_t kernel) {
  enum { KERNEL = 6, ADDRESSES = 4, HALF = 9, BYTE = 39, DISPATCH = 58 };
  enum { MATRIX = 6022, BRAIN_TYPE = 5116, BRAIN_MATRIX = 5118 };
  enum { PHYSICAL64 = 2, OPENCL = 2, SUBGROUP_SIZE = 35 };
  static const uint32_t wanted[] = {KERNEL,   ADDRESSES, HALF,       BYTE,
                                    DISPATCH, MATRIX,    BRAIN_TYPE, BRAIN_MATRIX};
  static const char *const extension[] = {"SPV_KHR_cooperative_matrix", "SPV_KHR_bfloat16"};
  uint32_t name[16] = {KERNEL, kernel};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) SAY(CAPABILITY, wanted[i]);
  for (size_t i = 0; i < sizeof extension / sizeof *extension; i++) {
    uint32_t text[8];
    say(w, EXTENSION, letters(text, extension[i]), text);
  }
  SAY(MEMORY_MODEL, PHYSICAL64, OPENCL);
  say(w, ENTRY_POINT, 2 + letters(name + 2, "probe"), name);
  SAY(EXECUTION_MODE, kernel, SUBGROUP_SIZE, LANES);
}

/* What the module has ids for. */
typedef struct Probe {
  Words w;
  uint32_t kernel, none, word, single, function;
  uint32_t factor[KINDS], sum[KINDS];      /* types of elements */
  uint32_t pointer[PLACES], place[PLACES]; /* parameters: factors of each kind, then the sums */
  uint32_t scope, rows, columns, deep, use[3];
  uint32_t matrix[KINDS][3];
} Probe;

static uint32_t number(Probe *p, uint32_t value) {
  Words *w = &p->w;
  uint32_t id = w->id++;
  SAY(CONSTANT, p->word, id, value);
  return id;
}

static void elements(Probe *p) {
  enum { BRAIN_FORM = 0 };
  Words *w = &p->w;
  SAY(TYPE_VOID, p->none);
  SAY(TYPE_INT, p->word, 32, 0);
  SAY(TYPE_FLOAT, p->single, 32);
  for (int i = 0; i < KINDS; i++) {
    p->factor[i] = w->id++;
    p->sum[i] = kind[i].sum == WHOLE ? p->word : p->single;
  }
  SAY(TYPE_FLOAT, p->factor[FLOAT], 16);
  SAY(TYPE_FLOAT, p->factor[BRAIN], 16, BRAIN_FORM);
  SAY(TYPE_INT, p->factor[WHOLE], 8, 0);
}

static void parameters(Probe *p) {
  enum { GLOBAL = 5 };
  Words *w = &p->w;
  uint32_t list[2 + PLACES] = {p->function, p->none};
  for (int i = 0; i < PLACES; i++) {
    list[2 + i] = p->pointer[i] = w->id++;
    SAY(TYPE_POINTER, p->pointer[i], GLOBAL,
        i < KINDS        ? p->factor[i]
        : i == OF_SINGLE ? p->single
                         : p->word);
  }
  say(w, TYPE_FUNCTION, sizeof list / sizeof *list, list);
}

static uint32_t deep_of(const Probe *p, int i) {
  return kind[i].deep == DEEP ? p->deep : p->columns;
}

static void matrices(Probe *p) {
  Words *w = &p->w;
  p->scope = number(p, SUBGROUP), p->rows = number(p, ROWS);
  p->columns = number(p, COLUMNS), p->deep = number(p, DEEP);
  for (int j = 0; j < 3; j++) p->use[j] = number(p, (uint32_t)j);
  for (int i = 0; i < KINDS; i++) {
    for (int j = 0; j < 3; j++) p->matrix[i][j] = w->id++;
    SAY(TYPE_MATRIX, p->matrix[i][0], p->factor[i], p->scope, p->rows, deep_of(p, i),
        p->use[0]);
    SAY(TYPE_MATRIX, p->matrix[i][1], p->factor[i], p->scope, deep_of(p, i), p->columns,
        p->use[1]);
    if (i && kind[i].sum == kind[i - 1].sum) /* a type is there once */
      p->matrix[i][2] = p->matrix[i - 1][2];
    else
      SAY(TYPE_MATRIX, p->matrix[i][2], p->sum[i], p->scope, p->rows, p->columns, p->use[2]);
  }
}

static void multiply(Probe *p, int i) {
  Words *w = &p->w;
  const uint32_t *m = p->matrix[i], by_row = p->use[0];
  uint32_t from = p->place[i], to = p->place[kind[i].sum == WHOLE ? OF_WHOLE : OF_SINGLE], x[4];
  for (int j = 0; j < 4; j++) x[j] = w->id++;
  SAY(LOAD, m[0], x[0], from, by_row, deep_of(p, i));
  SAY(LOAD, m[1], x[1], from, by_row, p->columns);
  SAY(LOAD, m[2], x[2], to, by_row, p->columns);
  if (kind[i].has_signs)
    SAY(MULTIPLY_ADD, m[2], x[3], x[0], x[1], x[2], kind[i].has_signs);
  else
    SAY(MULTIPLY_ADD, m[2], x[3], x[0], x[1], x[2]);
  SAY(STORE, to, x[3], by_row, p->columns);
}

static void body(Probe *p) {
  Words *w = &p->w;
  SAY(FUNCTION, p->none, p->kernel, 0, p->function);
  for (int i = 0; i < PLACES; i++) {
    p->place[i] = w->id++;
    SAY(PARAMETER, p->pointer[i], p->place[i]);
  }
  uint32_t label = w->id++;
  SAY(LABEL, label);
  for (int i = 0; i < KINDS; i++) multiply(p, i);
  say(w, RETURN, 0, NULL);
  say(w, FUNCTION_END, 0, NULL);
}

size_t ts_spirv_probe(uint32_t word[TS_SPIRV_PROBE_WORDS]) {
  enum { MAGIC = 0x07230203, VERSION = 1 << 16 | 2 << 8, BOUND = 3 };
  Probe p = {.w = {.at = word}, .kernel = 1, .none = 2, .word = 3, .single = 4, .function = 5};
  const uint32_t header[] = {MAGIC, VERSION, 0, 0, 0};
  p.w.id = p.function + 1;
  for (size_t i = 0; i < sizeof header / sizeof *header; i++) put(&p.w, header[i]);
  head(&p.w, p.kernel);
  elements(&p);
  parameters(&p);
  matrices(&p);
  body(&p);
  word[BOUND] = p.w.id; /* above all of them */
  return p.w.n * sizeof *word;
}
