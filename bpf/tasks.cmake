brink_bpf_object(tasks tasks.bpf.c)
