brink_bpf_object(walk_a64_test walk_a64_test.bpf.c)
