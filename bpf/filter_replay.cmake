brink_bpf_object(filter_replay filter_replay.bpf.c)
