# One object a form: a kfunc whose prototype differs fails its whole object, weak or not.
brink_bpf_object(probe probe/probe.bpf.c)
brink_bpf_object(probe_task_work probe/task_work.bpf.c)
brink_bpf_object(probe_task_work_impl probe/task_work_impl.bpf.c)
