"""Step reports from inside vLLM's scheduler. Name one of the two classes to `vllm serve --scheduler-cls`:

    wattle_vllm.scheduler.AsyncStepReports    with asynchronous scheduling (vLLM's default)
    wattle_vllm.scheduler.StepReports         without (--no-async-scheduling)
"""
