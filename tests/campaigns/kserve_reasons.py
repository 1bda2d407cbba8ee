# SPDX-License-Identifier: Apache-2.0
"""Why this server answers a call of kserve_conversation.py otherwise than Triton does."""

_CONFIG = "no config.pbtxt: what only Triton's scheduler has is left out"
_STEPS = "steps are an axis of X here: [1, 1, 128] instead of [1, 128]"
_WHOLE = "a model serves whole runs and sequences at once"
_MEMORY = "no memory is shared with callers"
_NONE = "not there; the code says so"

REASONS = {
    "get_server_metadata": "another server; it has fewer extensions",
    "get_model_metadata": "the name of the engine",
    "get_model_config": _CONFIG,
    "get_model_config, of a sequence model": _WHOLE,
    "get_inference_statistics, no such model": "one code for unknown models",
    "load_model, file without config": "the file says all",
    "load_model, not in the repository": "the code says that it is the caller's mistake",
    "unload_model, no such model": "a mistyped name is told",
    "get_trace_settings": _NONE,
    "update_trace_settings": _NONE,
    "get_log_settings": _NONE,
    "update_log_settings": _NONE,
    "register_system_shared_memory": _MEMORY,
    "register_cuda_shared_memory": _MEMORY,
    "infer, class_count": "no classification",
    "infer, gzip": "compressed messages are refused: a small one may be large",
    "no model_name": "the field is missing",
    "no rows": "zero rows have zero outputs",
    **{label: _STEPS for label in (
        "sequence_start", "sequence, second step", "sequence_start, of a live one", "sequence, after the restart",
        "sequence_end", "sequence_start and sequence_end", "sequence_id, a text", "sequence_id, 2^63 - 1",
        "stream, a sequence", "stream, an error and then a sequence")},
    "sequence_id 0": _WHOLE + "; 0 is no sequence",
    "no sequence_id, a model of sequences": _WHOLE,
    "a request sent again, with its id: same numbers": "applied once here, twice by Triton",
}
