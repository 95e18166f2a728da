brink_bpf_object(walk_task walk_task.bpf.c)
