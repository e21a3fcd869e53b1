"""Run records on disk and the tidy frame made from them.

Writing, by one process at a time:

    with Store(root) as store:                      # UsageError if another process holds the folder
        store.write_suite("quick", suite_hash, job_ids)
        if not store.is_complete(run_id):
            run = store.open_run(run_id, config)    # config: run.json without schema and run_id
            for note in run.notes: …                # what reopening repaired
            for batch in batches:
                if batch[0].id not in run.done_ids():
                    run.append(records)             # one whole batch: on the disk, or not at all
            run.finish({metric: {"value", "low", "high", "note"}})
        store.write_timing(group_id, document)      # document: the timing file without schema and group_id
        store.fail(job_id, job, error)              # forgotten when the job succeeds
        store.forget(job_id)                        # --fresh
        write_results_csv(root)

Reading, without a lock: `read_results(root)` (pandas frame), `load_runs`, `load_timings`, `load_failures`,
`load_suite`, and `verify(root)`, which says what is missing, double or altered.

What a folder holds (schema 1; all JSON is strict and ASCII, NaN and infinities are null):

    suite.json                   {"suite", "hash", "jobs": [run and group ids in order], "sha256"}
    runs/<run_id>/run.json       everything that configures the run, and its environment
    runs/<run_id>/records.jsonl  a line an example: id, batch, batch_rows, prompt_hash, prompt_tokens, truncated,
                                 output, pieces (the text of each output token), tokens, length, ended,
                                 layers_needed, layers_run, head_checks, of methods that guess guesses and accepted,
                                 and sha256 (of the rest)
    runs/<run_id>/scores.json    {"schema", "run_id", "n", "values": {metric: {"value", "low", "high", "note"}},
                                 "scorer" (versions of what scored), "records_sha256", "run_sha256", "sha256"}; there
                                 once the run is complete
    timing/<group_id>.json       all methods measured side by side, ids of those `missing` and reasons of those that
                                 `failed` while they were timed; sealed with sha256
    failures/<job_id>.json       {"job", "error"}
    results.csv                  a row a (run, metric); the same bytes for the same runs
"""

from .reading import RunFiles, load_failures, load_runs, load_suite, load_timings
from .store import Run, Store
from .tidy import COLUMNS, read_results, write_results_csv
from .verifying import Verdict, verify

__all__ = [
    "COLUMNS",
    "Run",
    "RunFiles",
    "Store",
    "Verdict",
    "load_failures",
    "load_runs",
    "load_suite",
    "load_timings",
    "read_results",
    "verify",
    "write_results_csv",
]
