/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The fields of cgroups, pid namespaces and signals that on-demand capture reads (CO-RE). */
#ifndef BRINK_VMLINUX_CGROUP_H_
#define BRINK_VMLINUX_CGROUP_H_

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup_root {
	unsigned int subsys_mask;
	int hierarchy_id;
};

struct cgroup {
	struct cgroup_subsys_state self;
	int level;
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct css_set {
	/* As many as the kernel has controllers; more are no field of its type and never read. */
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *dfl_cgrp;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

/* A second view of the same structure, so that brink_task.h need not know it. */
struct task_struct___snap {
	struct css_set *cgroups;
	struct pid *thread_pid;
	struct task_struct___snap *group_leader;
	__u64 self_exec_id;
};

struct sigaction___snap {
	void (*sa_handler)(int);
};

struct k_sigaction {
	struct sigaction___snap sa;
};

#pragma clang attribute pop

#endif /* BRINK_VMLINUX_CGROUP_H_ */
