/* Objects from disk with a right hash, whatever their bytes are: the loader gives code, or
 * an error. A small object is written here; then each field that is a length, an offset or a
 * count lies. Code itself is never changed: nobody can tell what it does. And the same of
 * the outlines of a GPU's kernels. */
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "jit/code/object.h"
#include "jit/gpu/gpu.h"
#include "jit/gpu/roles.h"

static int failed;
#define CHECK(x)                                                                               \
  ((x) ? (void)0 : (void)(failed++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

enum { TEXT = 1, DATA, SYMBOLS, NAMES, MOVES, NSECTION };

/* long f(void) { return number; } with the number in what is only read. */
typedef struct Object {
  Elf64_Ehdr head;
  Elf64_Shdr sec[NSECTION];
  Elf64_Sym sym[3];
  Elf64_Rela move[1];
  uint8_t text[8];
  int64_t number;
  char names[8];
} Object;

static void section(Object *o, int i, uint32_t type, uint64_t flags, size_t at, size_t size,
                    size_t each) {
  o->sec[i] = (Elf64_Shdr){.sh_type = type,
                           .sh_flags = flags,
                           .sh_offset = at,
                           .sh_size = size,
                           .sh_addralign = 8,
                           .sh_entsize = each};
}

static Object made(void) {
  static const uint8_t load_and_return[8] = {0x48, 0x8b, 0x05, 0, 0, 0, 0, 0xc3};
  Object o = {.number = 42, .names = "\0f\0n\0"};
  memcpy(o.head.e_ident, ELFMAG, SELFMAG);
  o.head.e_ident[EI_CLASS] = ELFCLASS64, o.head.e_ident[EI_DATA] = ELFDATA2LSB;
  o.head.e_type = ET_REL, o.head.e_machine = EM_X86_64;
  o.head.e_shoff = offsetof(Object, sec), o.head.e_shnum = NSECTION;
  o.head.e_shentsize = sizeof(Elf64_Shdr);
  memcpy(o.text, load_and_return, 8);
  section(&o, TEXT, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, offsetof(Object, text), 8, 0);
  section(&o, DATA, SHT_PROGBITS, SHF_ALLOC, offsetof(Object, number), 8, 0);
  section(&o, SYMBOLS, SHT_SYMTAB, 0, offsetof(Object, sym), sizeof o.sym, sizeof o.sym[0]);
  section(&o, NAMES, SHT_STRTAB, 0, offsetof(Object, names), sizeof o.names, 0);
  section(&o, MOVES, SHT_RELA, 0, offsetof(Object, move), sizeof o.move, sizeof o.move[0]);
  o.sec[SYMBOLS].sh_link = NAMES;
  o.sec[MOVES].sh_link = SYMBOLS, o.sec[MOVES].sh_info = TEXT;
  o.sym[1] = (Elf64_Sym){.st_name = 1, .st_shndx = TEXT};
  o.sym[2] = (Elf64_Sym){.st_name = 3, .st_shndx = DATA};
  o.move[0] = (Elf64_Rela){3, ELF64_R_INFO(2, R_X86_64_PC32), -4};
  return o;
}

typedef long Function(void);

/* What it gives, or -1 with an error. A function lies in what was loaded. */
static long run(const void *elf, size_t nbytes, bool call, const char *name) {
  TsObject o;
  TsError err = {0};
  void *at = NULL;
  if (ts_object_load(&o, elf, nbytes, 1, &name, &at, &err)) {
    CHECK(err.code && err.message[0] && !o.at);
    return -1;
  }
  CHECK((char *)at >= o.at && (char *)at < o.at + o.nbytes);
  Function *f;
  memcpy(&f, &at, sizeof f);
  long gave = call ? f() : 0;
  ts_object_unload(&o);
  return gave;
}

static bool refused(Object o) { return run(&o, sizeof o, false, "f") == -1; }

#define LIES(field, value)                                                                     \
  do {                                                                                         \
    Object o = made();                                                                         \
    o.field = value;                                                                           \
    CHECK(refused(o) || !#field " = " #value);                                                 \
  } while (0)

static void fields(void) {
  LIES(head.e_shoff, 1 << 20);
  LIES(head.e_shoff, UINT64_MAX - 7);
  LIES(head.e_shoff, offsetof(Object, sec) + 4);
  LIES(head.e_shnum, 0);
  LIES(head.e_shnum, 0xffff);
  LIES(head.e_shentsize, 8);
  LIES(head.e_ident[EI_DATA], ELFDATA2MSB);
  LIES(sec[TEXT].sh_size, UINT64_MAX);
  LIES(sec[TEXT].sh_size, 0);
  LIES(sec[TEXT].sh_offset, UINT64_MAX - 4);
  LIES(sec[TEXT].sh_type, SHT_NOBITS);
  LIES(sec[TEXT].sh_addralign, 3);
  LIES(sec[TEXT].sh_addralign, 1 << 30);
  LIES(sec[DATA].sh_size, (size_t)1 << 40);
  LIES(sec[SYMBOLS].sh_size, UINT64_MAX);
  LIES(sec[SYMBOLS].sh_entsize, 1);
  LIES(sec[SYMBOLS].sh_link, 77);
  LIES(sec[SYMBOLS].sh_link, DATA);
  LIES(sec[SYMBOLS].sh_type, SHT_NULL);
  LIES(sec[NAMES].sh_size, 2);
  LIES(sec[NAMES].sh_type, SHT_SYMTAB);
  LIES(sec[MOVES].sh_info, 77);
  LIES(sec[MOVES].sh_link, NAMES);
  LIES(sec[MOVES].sh_entsize, 8);
  LIES(sec[MOVES].sh_type, SHT_REL);
  LIES(sym[1].st_value, 8);
  LIES(sym[1].st_value, UINT64_MAX);
  LIES(sym[1].st_shndx, DATA); /* a function in what is only read */
  LIES(sym[1].st_shndx, SHN_ABS);
  LIES(sym[1].st_name, 1 << 30);
  LIES(sym[2].st_value, 1 << 20);
  LIES(sym[2].st_shndx, SYMBOLS); /* not loaded */
  LIES(move[0].r_offset, 5);      /* its end is behind the section's */
  LIES(move[0].r_offset, UINT64_MAX);
  LIES(move[0].r_addend, 1 << 20);
  LIES(move[0].r_addend, -(1 << 20));
  LIES(move[0].r_addend, INT64_MIN);
  LIES(move[0].r_info, ELF64_R_INFO(99, R_X86_64_PC32));
  LIES(move[0].r_info, ELF64_R_INFO(2, R_X86_64_GLOB_DAT));
  Object large = made();
  large.sec[DATA].sh_type = SHT_NOBITS, large.sec[DATA].sh_size = (size_t)1 << 30;
  CHECK(refused(large));
}

/* Every bit of all that is not code, and every length. What still loads is not called. */
static void bits(void) {
  Object o = made();
  size_t code = offsetof(Object, text);
  for (size_t at = 0; at < sizeof o; at++)
    for (int bit = 0; bit < 8 && (at < code || at >= code + 8); bit++) {
      o = made();
      ((char *)&o)[at] ^= (char)(1 << bit);
      run(&o, sizeof o, false, "f");
    }
  o = made();
  for (size_t n = 0; n < offsetof(Object, names) + 5; n++) CHECK(run(&o, n, false, "f") == -1);
}

/* ---- outlines of a GPU's kernels */
static TsTile *tile(void) {
  TsTile *k = ts_tile_new("k");
  int64_t dim[2] = {64, 64};
  TsTileType t = ts_tile_type(TS_DT_f32, 2, dim);
  ts_tile_size(k, "M");
  ts_tile_param(k, "x", &t, false);
  ts_tile_param(k, "y", &t, true);
  TsTileBuild b = ts_tile_build(k);
  ts_tile_alloc(&b, TS_SPACE_scratch, &t);
  k->threads = 128;
  return k;
}

static void outlines(void) {
  const TsTarget *t = ts_target("sm_90a");
  TsTile *k = tile();
  const TsGpuRoles good = {.name = "k",
                           .threads = 128,
                           .cluster = 1,
                           .shared = 1024,
                           .scratch = 64 * 64 * 4,
                           .nparam = 2,
                           .ndim = 1,
                           .nmap = 1,
                           .map = {{.param = 1, .rows = 64, .cols = 64, .swizzle = 128}}};
  CHECK(ts_gpu_roles_sound(&good, k, t));
#define BAD(field, value)                                                                      \
  do {                                                                                         \
    TsGpuRoles r = good;                                                                       \
    r.field = value;                                                                           \
    CHECK(!ts_gpu_roles_sound(&r, k, t));                                                      \
  } while (0)
  BAD(threads, 0);
  BAD(threads, 1 << 20);
  BAD(cluster, 1 << 20);
  BAD(shared, UINT32_MAX);
  BAD(scratch, -1);
  BAD(scratch, INT64_MAX);
  BAD(nparam, 40);
  BAD(ndim, 0);
  BAD(ndim, 1 << 20);
  BAD(nmap, -1);
  BAD(nmap, 1 << 20);
  BAD(map[0].param, 2);
  BAD(map[0].param, -1);
  BAD(map[0].rows, 0);
  BAD(map[0].cols, 1 << 20);
  BAD(map[0].panels, -1);
  BAD(map[0].swizzle, 7);
  TsGpuRoles endless = good;
  memset(endless.name, 'x', sizeof endless.name);
  CHECK(!ts_gpu_roles_sound(&endless, k, t));
  TsGpuRoles both = good;
  memset(&both.dependent, 7, 1);
  CHECK(!ts_gpu_roles_sound(&both, k, t));
  ts_tile_free(k);

  const TsGpuPhase phase = {.name = "phase0", .threads = 256, .shared = 64, .rounds = 2};
  CHECK(ts_gpu_phase_sound(&phase, t));
#define WRONG(field, value)                                                                    \
  do {                                                                                         \
    TsGpuPhase p = phase;                                                                      \
    p.field = value;                                                                           \
    CHECK(!ts_gpu_phase_sound(&p, t));                                                         \
  } while (0)
  WRONG(rounds, 0); /* it divides */
  WRONG(rounds, -1);
  WRONG(threads, 0);
  WRONG(threads, 1 << 20);
  WRONG(cluster, 1 << 20);
  WRONG(shared, UINT32_MAX);
  WRONG(name[0], 0);
}

int main(void) {
#if defined __x86_64__
  Object o = made();
  CHECK(run(&o, sizeof o, true, "f") == 42);
  CHECK(run(&o, sizeof o, false, "n") == -1);
  CHECK(run(&o, sizeof o, false, "g") == -1);
  fields();
  bits();
#endif
  outlines();
  if (!failed) printf("objects: fine\n");
  return failed != 0;
}
