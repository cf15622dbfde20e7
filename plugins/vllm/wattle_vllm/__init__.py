"""Step reports from inside vLLM's scheduler: `vllm serve --scheduler-cls wattle_vllm.scheduler.StepReports`."""
