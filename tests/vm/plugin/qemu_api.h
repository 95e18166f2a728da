/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the plugin uses of QEMU 7.2, declared by hand because Debian packages no header: the plugin interface
 * (version 1), and some inner functions that the program happens to export. The latter are looked up at run time;
 * where one is missing the feature that needs it is off, and said so.
 */
#ifndef BRINK_TESTS_VM_QEMU_API_H_
#define BRINK_TESTS_VM_QEMU_API_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QEMU_PLUGIN_VERSION 1

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct {
	const char *target_name;
	struct { int min, cur; } version;
	bool system_emulation;
	union { struct { int smp_vcpus, max_vcpus; } system; };
} qemu_info_t;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_CB_RW_REGS };

typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned int, void *);
typedef void (*qemu_plugin_simple_cb_t)(qemu_plugin_id_t);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, qemu_plugin_vcpu_tb_trans_cb_t);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, qemu_plugin_vcpu_udata_cb_t,
					  enum qemu_plugin_cb_flags, void *);
void qemu_plugin_register_flush_cb(qemu_plugin_id_t, qemu_plugin_simple_cb_t);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void qemu_plugin_outs(const char *);

/* Inner functions, by dlsym. */
struct CPUState;
struct byte_array { uint8_t *data; unsigned int len; };	/* GByteArray */
#define QEMU_INTERRUPT_NMI_X86 0x200			/* CPU_INTERRUPT_TGT_EXT_3 */
#define QEMU_GDB_RSP 7

struct qemu_inner {
	struct CPUState *(*get_cpu)(int);
	void (*interrupt)(struct CPUState *, int);
	void (*lock)(const char *, int);
	void (*unlock)(void);
	int (*memory)(struct CPUState *, uint64_t, void *, size_t, bool);
	int (*read_register)(struct CPUState *, struct byte_array *, int);
	struct byte_array *(*array_new)(void);
	struct byte_array *(*array_resize)(struct byte_array *, unsigned int);
};

#endif
