brink_bpf_object(walk_task_impl walk_task_impl.bpf.c)
