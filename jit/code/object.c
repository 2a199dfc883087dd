/* An ELF loader for x86-64 objects of the small code model, position independent. */
#include "jit/code/object.h"

#include <elf.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What generated code may call: where the machine lacks an instruction, the function of the C
 * library that gives the same correctly rounded result. */
/* clang-format off */
#define FUNCTIONS(X)                                                                           \
  X(fma) X(fmaf) X(floor) X(floorf) X(ceil) X(ceilf) X(trunc) X(truncf) X(rint) X(rintf)       \
  X(roundeven) X(roundevenf) X(nearbyint) X(nearbyintf) X(sqrt) X(sqrtf) X(memcpy) X(memmove)  \
  X(memset)
/* clang-format on */

#if __GLIBC__ == 2 && __GLIBC_MINOR__ < 25
#error "roundeven is in glibc 2.25 and later"
#endif
double roundeven(double x);
float roundevenf(float x);

static const struct {
  const char *name;
  void *at;
} function[] = {
#define FUNCTION(f) {#f, (void *)(uintptr_t)f},
    FUNCTIONS(FUNCTION)
#undef FUNCTION
};

enum {
  NFUNCTION = sizeof function / sizeof *function,
  STUB = 16,
  MAX_SECTIONS = 256,
  LARGEST = 64 << 20, /* bytes of a kernel's code and constants */
  BEFORE = 16
}; /* a position in an instruction is told from behind it */

typedef struct Load {
  const char *elf;
  size_t nbytes;
  const Elf64_Ehdr *head;
  const Elf64_Shdr *sec;
  const Elf64_Sym *sym;
  size_t nsym;
  int symbols; /* their section */
  const char *names;
  size_t nnames;
  int64_t place[MAX_SECTIONS]; /* of a section in memory, -1: not loaded */
  int64_t stubs, data, end;    /* offsets: code, stubs, then what is only read */
  char *at;
  TsError *err;
} Load;

static int bad(Load *l, const char *what) {
  return ts_error_set(l->err, TS_ERR_device, "jit: object: %s", what);
}

static bool inside(const Load *l, uint64_t at, uint64_t n) {
  return at <= l->nbytes && n <= l->nbytes - at;
}

static int read_head(Load *l) {
  const Elf64_Ehdr *h = l->head = (const void *)l->elf;
  if (l->nbytes < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) ||
      h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
      h->e_machine != EM_X86_64 || h->e_type != ET_REL)
    return bad(l, "not an x86-64 object");
  if (h->e_shnum > MAX_SECTIONS || h->e_shoff % 8 || h->e_shentsize != sizeof *l->sec ||
      !inside(l, h->e_shoff, (uint64_t)h->e_shnum * sizeof *l->sec))
    return bad(l, "sections out of bounds");
  l->sec = (const void *)(l->elf + h->e_shoff);
  for (int i = 0; i < h->e_shnum; i++) {
    const Elf64_Shdr *s = &l->sec[i];
    if (s->sh_type != SHT_NOBITS && !inside(l, s->sh_offset, s->sh_size))
      return bad(l, "section out of bounds");
    if (s->sh_type == SHT_REL) return bad(l, "relocations of another kind");
    if (s->sh_type != SHT_SYMTAB) continue;
    if (l->sym || s->sh_link >= h->e_shnum || l->sec[s->sh_link].sh_type != SHT_STRTAB ||
        s->sh_offset % 8 || s->sh_entsize != sizeof *l->sym)
      return bad(l, "symbols out of bounds");
    l->symbols = i;
    l->sym = (const void *)(l->elf + s->sh_offset);
    l->nsym = s->sh_size / sizeof *l->sym;
    l->names = l->elf + l->sec[s->sh_link].sh_offset;
    l->nnames = l->sec[s->sh_link].sh_size;
  }
  return l->sym && l->nnames && !l->names[l->nnames - 1] ? 0 : bad(l, "no symbols");
}

/* Unwinding tables are not loaded: nothing is thrown through a kernel. */
static bool wanted(const Load *l, const Elf64_Shdr *s) {
  (void)l;
  return (s->sh_flags & SHF_ALLOC) && s->sh_type != SHT_X86_64_UNWIND && s->sh_size > 0;
}

static int64_t arrange(Load *l, bool code, int64_t at) {
  for (int i = 0; i < l->head->e_shnum; i++) {
    const Elf64_Shdr *s = &l->sec[i];
    if (!wanted(l, s) || !!(s->sh_flags & SHF_EXECINSTR) != code) continue;
    uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
    if (align > 4096 || align & (align - 1) || s->sh_size > LARGEST) return -1;
    if (code && s->sh_type != SHT_PROGBITS) return -1;
    at = (at + (int64_t)align - 1) & -(int64_t)align;
    l->place[i] = at;
    at += (int64_t)s->sh_size;
    if (at > LARGEST) return -1;
  }
  return at;
}

static int place_sections(Load *l) {
  int64_t page = sysconf(_SC_PAGESIZE);
  for (int i = 0; i < MAX_SECTIONS; i++) l->place[i] = -1;
  int64_t code = arrange(l, true, 0);
  if (code < 0) return bad(l, "too large");
  l->stubs = (code + STUB - 1) & -(int64_t)STUB;
  l->data = (l->stubs + NFUNCTION * STUB + page - 1) & -page;
  l->end = arrange(l, false, l->data);
  if (l->end < 0) return bad(l, "too large");
  void *at =
      mmap(NULL, (size_t)l->end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return ts_error_set(l->err, TS_ERR_memory, "jit: out of memory for code");
  l->at = at;
  for (int i = 0; i < l->head->e_shnum; i++)
    if (l->place[i] >= 0 && l->sec[i].sh_type != SHT_NOBITS)
      memcpy(l->at + l->place[i], l->elf + l->sec[i].sh_offset, l->sec[i].sh_size);
  return 0;
}

/* jmp *2(%rip); two bytes of nothing; the address. A call reaches the jump, a load through the
 * global offset table the address. */
static void write_stubs(Load *l) {
  static const uint8_t jump[8] = {0xff, 0x25, 2, 0, 0, 0, 0x66, 0x90};
  for (int i = 0; i < NFUNCTION; i++) {
    char *stub = l->at + l->stubs + i * STUB;
    memcpy(stub, jump, 8);
    memcpy(stub + 8, &function[i].at, 8);
  }
}

static const char *symbol_name(const Load *l, const Elf64_Sym *s) {
  return s->st_name < l->nnames ? l->names + s->st_name : "";
}

/* The address of a symbol; of a function of the list its stub, with *stub set. */
static char *address_of(Load *l, uint32_t index, bool *stub) {
  *stub = false;
  if (index >= l->nsym) return NULL;
  const Elf64_Sym *s = &l->sym[index];
  if (s->st_shndx != SHN_UNDEF) {
    if (s->st_shndx >= l->head->e_shnum || l->place[s->st_shndx] < 0 ||
        s->st_value > l->sec[s->st_shndx].sh_size)
      return NULL;
    return l->at + l->place[s->st_shndx] + s->st_value;
  }
  *stub = true;
  for (int i = 0; i < NFUNCTION; i++)
    if (!strcmp(function[i].name, symbol_name(l, s))) return l->at + l->stubs + i * STUB;
  return NULL;
}

static int relocate(Load *l, const Elf64_Shdr *into, int64_t place, const Elf64_Rela *r) {
  bool stub;
  uint32_t type = ELF64_R_TYPE(r->r_info), index = (uint32_t)ELF64_R_SYM(r->r_info);
  char *to = address_of(l, index, &stub);
  uint64_t width = type == R_X86_64_64 ? 8 : 4;
  if (!to)
    return ts_error_set(l->err, TS_ERR_device, "jit: object: unknown symbol %s",
                        index < l->nsym ? symbol_name(l, &l->sym[index]) : "");
  if (r->r_offset > into->sh_size || width > into->sh_size - r->r_offset)
    return bad(l, "relocation out of bounds");
  char *at = l->at + place + r->r_offset;
  bool got =
      type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
  if (got && !stub) return bad(l, "address of a local symbol through a table");
  if (r->r_addend < -(int64_t)LARGEST || r->r_addend > LARGEST)
    return bad(l, "relocation out of bounds");
  int64_t offset = to - l->at + r->r_addend;
  if (offset < -(int64_t)BEFORE || offset > l->end)
    return bad(l, "relocation to what is not of the object");
  int64_t value = (int64_t)(intptr_t)to + r->r_addend + (got ? 8 : 0);
  if (type == R_X86_64_64) return memcpy(at, &value, 8), 0;
  if (!got && type != R_X86_64_PC32 && type != R_X86_64_PLT32)
    return ts_error_set(l->err, TS_ERR_device, "jit: object: relocation %u", type);
  value -= (int64_t)(intptr_t)at;
  int32_t low = (int32_t)value;
  if (low != value) return bad(l, "relocation too far");
  memcpy(at, &low, 4);
  return 0;
}

static int relocate_all(Load *l) {
  for (int i = 0; i < l->head->e_shnum; i++) {
    const Elf64_Shdr *s = &l->sec[i];
    if (s->sh_type != SHT_RELA) continue;
    if (s->sh_info >= l->head->e_shnum || s->sh_offset % 8 ||
        s->sh_entsize != sizeof(Elf64_Rela) || s->sh_link != (uint32_t)l->symbols)
      return bad(l, "relocations misplaced");
    int64_t place = l->place[s->sh_info];
    if (place < 0) continue;
    const Elf64_Rela *r = (const void *)(l->elf + s->sh_offset);
    for (size_t k = 0; k < s->sh_size / sizeof *r; k++)
      if (relocate(l, &l->sec[s->sh_info], place, &r[k])) return -1;
  }
  return 0;
}

/* A function begins in code, not behind its end. */
static bool is_code(const Load *l, const Elf64_Sym *s) {
  if (s->st_shndx == SHN_UNDEF || s->st_shndx >= l->head->e_shnum) return false;
  const Elf64_Shdr *in = &l->sec[s->st_shndx];
  return (in->sh_flags & SHF_EXECINSTR) && s->st_value < in->sh_size;
}

static int find(Load *l, const char *name, void **address) {
  for (size_t i = 0; i < l->nsym; i++) {
    bool stub;
    if (!is_code(l, &l->sym[i]) || strcmp(symbol_name(l, &l->sym[i]), name)) continue;
    if ((*address = address_of(l, (uint32_t)i, &stub))) return 0;
  }
  return ts_error_set(l->err, TS_ERR_device, "jit: object: no function %s", name);
}

static int load(Load *l, int n, const char *const *name, void **address) {
  if (read_head(l) || place_sections(l)) return -1;
  write_stubs(l);
  if (relocate_all(l)) return -1;
  for (int i = 0; i < n; i++)
    if (find(l, name[i], &address[i])) return -1;
  if (mprotect(l->at, (size_t)l->data, PROT_READ | PROT_EXEC) ||
      (l->end > l->data && mprotect(l->at + l->data, (size_t)(l->end - l->data), PROT_READ)))
    return bad(l, "this system does not let us run code that we make");
  return 0;
}

int ts_object_load(TsObject *o, const void *elf, size_t nbytes, int n, const char *const *name,
                   void **address, TsError *err) {
  Load *l = calloc(1, sizeof *l);
  if (!l) return ts_error_set(err, TS_ERR_memory, "jit: out of memory");
  l->elf = elf, l->nbytes = nbytes, l->err = err;
  int failed = load(l, n, name, address);
  *o = (TsObject){.at = l->at, .nbytes = (size_t)l->end};
  free(l);
  if (failed) ts_object_unload(o);
  return failed;
}

void ts_object_unload(TsObject *o) {
  if (o->at) munmap(o->at, o->nbytes);
  *o = (TsObject){0};
}
