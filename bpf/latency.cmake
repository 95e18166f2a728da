brink_bpf_object(latency latency_irq.bpf.c latency_sched.bpf.c latency_watch.bpf.c)
