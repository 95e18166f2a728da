/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A last branch record for guests of QEMU's TCG: -plugin lbr.so,bar=FILE with FILE behind an ivshmem-plain device.
 * bar.h describes the registers.
 *
 * Every translated block calls on_block() when it starts. What lies between two starts of one virtual CPU is decided
 * by the last instruction of the first block: blocks end early too (page borders, interrupts, an instruction that
 * faulted), and a repeated string instruction restarts its own block; neither is a branch. A start at an entry of the
 * interrupt descriptor table is an interrupt or fault; where it came from is read from the frame that it pushed.
 *
 * On arm64 user code alone is followed, and where an interrupt came from is learnt when the CPU is back (bar.h, struct
 * lbr_pending). A system call is a record without a target, what returns from the kernel one without a source.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bar.h"
#include "decode_a64.h"
#include "decode_x86.h"
#include "qemu_api.h"

#define PAGE 4096
#define LONGEST_INSN 15
#define PREDICTOR_SIZE 4096
#define RETURN_STACK 16
#define VECTOR_NMI 2
#define FIRST_EXTERNAL_VECTOR 32

struct block {
	struct block *next;
	uint64_t start;
	uint64_t last;		/* address of the last instruction */
	uint64_t end;		/* behind it */
	struct lbr_insn insn;	/* the last instruction */
	uint32_t count;
	uint32_t generation;	/* of the vector table that `vector` was looked up in */
	int vector;		/* -1: not an entry point */
};

struct vcpu {
	const struct block *before;	/* NULL: nothing ran yet */
	struct block kept;	/* what before points to once QEMU has flushed its translations */
	uint64_t last_record;	/* instruction count at the newest record */
	uint8_t conditional[PREDICTOR_SIZE];
	uint64_t indirect[PREDICTOR_SIZE];
	uint64_t returns[RETURN_STACK];
	unsigned int return_top;
};

__attribute__((visibility("default"))) int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static struct vcpu vcpus[LBR_MAX_CPUS];
static struct lbr_bar *bar;
static struct block *blocks;
static struct qemu_inner qemu;
static __thread struct byte_array *scratch;
static bool arm64;

static struct lbr_cpu *registers_of(unsigned int cpu)
{
	return (struct lbr_cpu *)((char *)bar + LBR_BAR_PAGE * (1 + cpu));
}

static bool in_kernel(uint64_t address)
{
	return (int64_t)address < 0;
}

static uint32_t suppressed_by(enum lbr_kind kind)
{
	switch (kind) {
	case LBR_KIND_COND: return LBR_NO_COND;
	case LBR_KIND_JUMP: return LBR_NO_JUMP;
	case LBR_KIND_IND_JUMP: return LBR_NO_IND_JUMP;
	case LBR_KIND_CALL: return LBR_NO_CALL;
	case LBR_KIND_IND_CALL: return LBR_NO_IND_CALL;
	case LBR_KIND_RET: return LBR_NO_RET;
	default: return LBR_NO_FAR;
	}
}

/* Two-bit counters for conditions, the last target for indirect branches, a stack for returns. */
static bool predict(struct vcpu *v, const struct lbr_insn *insn, uint64_t from, uint64_t next, bool taken, uint64_t to)
{
	unsigned int slot = (from ^ from >> 12) % PREDICTOR_SIZE;
	bool right = true;

	if (insn->conditional) {
		uint8_t *state = &v->conditional[slot];

		right = (*state >= 2) == taken;
		*state = taken ? *state + (*state < 3) : *state - (*state > 0);
	} else if (insn->kind == LBR_KIND_RET) {
		v->return_top = (v->return_top + RETURN_STACK - 1) % RETURN_STACK;
		right = v->returns[v->return_top] == to;
	} else if (insn->kind == LBR_KIND_IND_JUMP || insn->kind == LBR_KIND_IND_CALL) {
		right = v->indirect[slot] == to;
		v->indirect[slot] = to;
	}
	if (insn->kind == LBR_KIND_CALL || insn->kind == LBR_KIND_IND_CALL) {
		v->returns[v->return_top] = next;
		v->return_top = (v->return_top + 1) % RETURN_STACK;
	}
	return right;
}

static void count(struct lbr_cpu *c, bool kernel, uint32_t what, uint64_t amount)
{
	for (int i = 0; i < LBR_COUNTERS; i++) {
		struct lbr_counter *counter = &c->counters[i];

		if (!(counter->control & LBR_COUNT_ON) || (counter->control & LBR_COUNT_BRANCHES) != what ||
		    !(counter->control & (kernel ? LBR_COUNT_KERNEL : LBR_COUNT_USER)))
			continue;
		counter->count += amount;
		counter->left -= amount;
	}
}

static void raise_overflows(unsigned int cpu, struct lbr_cpu *c)
{
	bool raised = false;

	for (int i = 0; i < LBR_COUNTERS; i++) {
		struct lbr_counter *counter = &c->counters[i];

		if ((counter->control & LBR_COUNT_ON) && counter->left <= 0 && !counter->overflowed) {
			counter->overflowed = 1;
			raised = true;
		}
	}
	if (raised && bar->can_interrupt) {
		qemu.lock(__FILE__, __LINE__);
		qemu.interrupt(qemu.get_cpu(cpu), QEMU_INTERRUPT_NMI_X86);
		qemu.unlock();
	}
}

static void record(struct vcpu *v, struct lbr_cpu *c, uint64_t from, uint64_t to, enum lbr_kind kind, bool mispredicted)
{
	struct lbr_record *entry;
	uint64_t cycles;

	c->taken++;
	if (c->off)
		return;
	if (!c->in_nmi)
		count(c, in_kernel(to), LBR_COUNT_BRANCHES, 1);
	if (!c->enable || c->freeze || c->depth == 0 || c->depth > LBR_MAX_DEPTH)
		return;
	if (c->select & (in_kernel(to) ? LBR_NO_KERNEL : LBR_NO_USER))
		return;
	if ((c->select & LBR_CALL_STACK) && kind == LBR_KIND_RET) {
		if (c->valid) {
			c->valid--;
			c->top = (c->top + c->depth - 1) % c->depth;
		}
		return;
	}
	if (c->select & suppressed_by(kind))
		return;
	c->top = (c->top + 1) % c->depth;
	if (c->valid < c->depth)
		c->valid++;
	entry = &c->records[c->top];
	cycles = c->instructions - v->last_record;
	v->last_record = c->instructions;
	entry->from = from;
	entry->to = to;
	entry->cycles = cycles > 65535 ? 65535 : cycles ? cycles : 1;
	entry->kind = kind;
	entry->mispredicted = mispredicted;
	c->recorded++;
}

static void unexplained(struct lbr_cpu *c, uint64_t from, uint64_t to)
{
	c->unexplained++;
	c->unexplained_from = from;
	c->unexplained_to = to;
}

/* The block `before` ran and the CPU went on at `to`. */
static void follow(struct vcpu *v, struct lbr_cpu *c, uint64_t to)
{
	const struct block *before = v->before;
	const struct lbr_insn *insn = &before->insn;
	bool taken, right;

	/*
	 * QEMU 7.2 takes an instruction that would cross into the next page out of its block again, but leaves what it had
	 * fetched of it in the plugin's list.
	 */
	if (!arm64 && to == before->last && before->count > 1 && to % PAGE > PAGE - LONGEST_INSN) {
		c->instructions--;
		return;
	}
	if (insn->kind == LBR_KIND_NONE || insn->direct) {
		taken = insn->direct && to == insn->target;
		if (!taken && to != before->end) {
			/* Broken off inside and taken up again, as for self-modifying code: nothing happened yet. */
			if (to < before->start || to >= before->end)
				unexplained(c, before->last, to);
			return;
		}
		if (insn->kind == LBR_KIND_NONE)
			return;
	} else {
		taken = true;
	}
	right = predict(v, insn, before->last, before->end, taken, to);
	if (taken)
		record(v, c, before->last, to, insn->kind, !right);
}

static bool has_error_code(int vector)
{
	return vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21 || vector == 29 || vector == 30;
}

static int find_vector(uint64_t start)
{
	for (int i = 0; i < 256; i++)
		if (bar->vectors[i] == start)
			return i;
	return -1;
}

static bool read_u64(unsigned int cpu, uint64_t address, uint64_t *value)
{
	return qemu.memory(qemu.get_cpu(cpu), address, value, sizeof(*value), false) == 0;
}

static bool read_stack_pointer(unsigned int cpu, uint64_t *sp)
{
	if (!scratch)
		scratch = qemu.array_new();
	qemu.array_resize(scratch, 0);
	if (qemu.read_register(qemu.get_cpu(cpu), scratch, QEMU_GDB_RSP) != sizeof(*sp))
		return false;
	memcpy(sp, scratch->data, sizeof(*sp));
	return true;
}

/* The CPU entered `vector` at `entry` and pushed a frame at `sp`: instruction pointer, cs, flags, stack pointer, ss. */
static void enter_vector(unsigned int cpu, struct vcpu *v, struct lbr_cpu *c, int vector, uint64_t entry, uint64_t sp)
{
	const struct block *before = v->before;
	bool synchronous = vector < FIRST_EXTERNAL_VECTOR && vector != VECTOR_NMI;
	uint64_t ip, from, outer;
	int inner;

	if (!read_u64(cpu, sp + (has_error_code(vector) ? 8 : 0), &ip)) {
		unexplained(c, before->last, entry);
		return;
	}
	from = ip;
	inner = in_kernel(ip) ? find_vector(ip) : -1;
	if (inner >= 0 && !synchronous && read_u64(cpu, sp + 24, &outer))
		enter_vector(cpu, v, c, inner, ip, outer);	/* an NMI before the handler's first instruction */
	else if (synchronous && before->insn.kind == LBR_KIND_IRQ && ip == before->end)
		from = before->last;	/* int n pushes the address behind itself */
	else if (!synchronous || ip < before->start || ip >= before->end)
		follow(v, c, ip);
	if (vector == VECTOR_NMI && c->freeze_on_nmi) {
		c->freeze_before_nmi = c->freeze;
		c->freeze = 1;
		c->in_nmi = 1;
	}
	record(v, c, from, entry, LBR_KIND_IRQ, false);
}

/* A page that was not there, a breakpoint: nothing of the block before has happened. */
#define A64_SYNCHRONOUS_FROM_USER 8

static void leave_user_a64(struct vcpu *v, struct lbr_cpu *c, uint64_t entry)
{
	const struct block *before = v->before;
	const struct lbr_insn *insn = &before->insn;

	c->pending.kind = LBR_KIND_NONE;
	if (entry == bar->vectors[A64_SYNCHRONOUS_FROM_USER]) {
		if (insn->kind == LBR_KIND_SYSCALL)
			record(v, c, before->last, 0, LBR_KIND_SYSCALL, false);
		return;
	}
	c->pending.from = before->last;
	c->pending.target = insn->target;
	c->pending.direct = insn->direct;
	c->pending.kind = insn->kind;
}

static void enter_user_a64(struct vcpu *v, struct lbr_cpu *c, uint64_t to)
{
	const struct lbr_pending pending = c->pending;

	c->pending.kind = LBR_KIND_NONE;
	if (pending.kind != LBR_KIND_NONE && (!pending.direct || pending.target == to))
		record(v, c, pending.from, to, pending.kind, false);
	record(v, c, 0, to, LBR_KIND_ERET, false);
}

static void on_block_a64(struct vcpu *v, struct lbr_cpu *c, const struct block *now)
{
	const bool from_kernel = in_kernel(v->before->start), to_kernel = in_kernel(now->start);

	if (!from_kernel && to_kernel)
		leave_user_a64(v, c, now->start);
	else if (from_kernel && !to_kernel)
		enter_user_a64(v, c, now->start);
	else if (!to_kernel)
		follow(v, c, now->start);
}

static void on_block(unsigned int cpu, void *data)
{
	struct block *now = data;
	struct vcpu *v;
	struct lbr_cpu *c;
	uint64_t sp;

	if (cpu >= LBR_MAX_CPUS)
		return;
	v = &vcpus[cpu];
	c = registers_of(cpu);
	if (arm64) {
		if (c->armed && v->before)
			on_block_a64(v, c, now);
	} else if (c->armed && v->before) {
		if (now->generation != bar->vectors_generation) {
			now->generation = bar->vectors_generation;
			now->vector = in_kernel(now->start) ? find_vector(now->start) : -1;
		}
		if (now->vector >= 0 && read_stack_pointer(cpu, &sp))
			enter_vector(cpu, v, c, now->vector, now->start, sp);
		else
			follow(v, c, now->start);
		if (!c->in_nmi && !c->off) {
			count(c, in_kernel(now->start), 0, now->count);
			raise_overflows(cpu, c);
		}
	}
	/* After follow(): what a record's clock counts lies before its branch. */
	c->instructions += now->count;
	v->before = now;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	struct qemu_plugin_insn *last;
	struct block *b;

	(void)id;
	if (!n)
		return;
	b = calloc(1, sizeof(*b));
	if (!b)
		abort();
	last = qemu_plugin_tb_get_insn(tb, n - 1);
	b->start = qemu_plugin_tb_vaddr(tb);
	b->last = qemu_plugin_insn_vaddr(last);
	b->end = b->last + qemu_plugin_insn_size(last);
	if (arm64) {
		uint32_t word;

		memcpy(&word, qemu_plugin_insn_data(last), sizeof(word));
		b->insn = lbr_decode_a64(word, b->last);
	} else {
		b->insn = lbr_decode(qemu_plugin_insn_data(last), qemu_plugin_insn_size(last), b->end);
	}
	b->count = n;
	b->generation = ~0u;
	b->vector = -1;
	do
		b->next = __atomic_load_n(&blocks, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&blocks, &b->next, b, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, b);
}

/* Called with every virtual CPU stopped, when no translation is left that could name a block. */
static void on_flush(qemu_plugin_id_t id)
{
	struct block *b = blocks;

	(void)id;
	for (int i = 0; i < LBR_MAX_CPUS; i++) {
		if (vcpus[i].before && vcpus[i].before != &vcpus[i].kept) {
			vcpus[i].kept = *vcpus[i].before;
			vcpus[i].before = &vcpus[i].kept;
		}
	}
	blocks = NULL;
	while (b) {
		struct block *next = b->next;

		free(b);
		b = next;
	}
}

static bool find_inner(void)
{
	qemu.get_cpu = dlsym(RTLD_DEFAULT, "qemu_get_cpu");
	qemu.interrupt = dlsym(RTLD_DEFAULT, "cpu_interrupt");
	qemu.lock = dlsym(RTLD_DEFAULT, "qemu_mutex_lock_iothread_impl");
	qemu.unlock = dlsym(RTLD_DEFAULT, "qemu_mutex_unlock_iothread");
	qemu.memory = dlsym(RTLD_DEFAULT, "cpu_memory_rw_debug");
	qemu.read_register = dlsym(RTLD_DEFAULT, "x86_cpu_gdb_read_register");
	qemu.array_new = dlsym(RTLD_DEFAULT, "g_byte_array_new");
	qemu.array_resize = dlsym(RTLD_DEFAULT, "g_byte_array_set_size");
	return qemu.get_cpu && qemu.memory && qemu.read_register && qemu.array_new && qemu.array_resize;
}

static int fail(const char *what)
{
	fprintf(stderr, "lbr plugin: %s\n", what);
	return 1;
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	const char *path = NULL;
	int fd;

	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "bar=", 4))
			path = argv[i] + 4;
	if (!path)
		return fail("bar=FILE is missing");
	arm64 = !strcmp(info->target_name, "aarch64");
	if (!arm64 && strcmp(info->target_name, "x86_64"))
		return fail("only x86_64 and aarch64 guests");
	if (info->system.max_vcpus > LBR_MAX_CPUS)
		return fail("too many virtual CPUs");
	if (!arm64 && !find_inner())
		return fail("this QEMU does not export what finding the origin of an interrupt needs");
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || ftruncate(fd, LBR_BAR_SIZE))
		return fail("cannot open the file");
	bar = mmap(NULL, LBR_BAR_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (bar == MAP_FAILED)
		return fail("cannot map the file");
	bar->version = 1;
	bar->cpus = info->system.smp_vcpus;
	bar->can_interrupt = !arm64 && qemu.interrupt && qemu.lock && qemu.unlock;
	bar->magic = LBR_BAR_MAGIC;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_flush_cb(id, on_flush);
	return 0;
}
