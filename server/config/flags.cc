// SPDX-License-Identifier: Apache-2.0
#include "server/config/flags.h"

ABSL_FLAG(std::string, config, "",
          "file of settings, one per line, such as `max_calls: 4096`; flags of the command line override it; "
          "`rnnserve config print` shows what is in force");
ABSL_FLAG(std::vector<std::string>, listen, {"0.0.0.0:50051"},
          "addresses to listen on, separated by commas: host:port, [::]:port or unix:path; port 0 picks a free port");
ABSL_FLAG(std::string, port_file, "",
          "file to which the server writes the port of the first address once it listens; the number of the admin port "
          "goes into a file of this name with .admin behind it");
ABSL_FLAG(std::string, tls_cert, "",
          "PEM file of the server's certificate chain; empty: no TLS; reloaded when it changes");
ABSL_FLAG(std::string, tls_key, "", "PEM file of the certificate's private key");
ABSL_FLAG(std::string, tls_client_ca, "",
          "PEM file of the CA that signs clients' certificates (mutual TLS); empty: clients need no certificate");
ABSL_FLAG(std::string, tls_min_version, "1.2", "minimum TLS version: 1.2 or 1.3");
ABSL_FLAG(std::string, tls_ciphers, "",
          "cipher suites of TLS 1.2 in OpenSSL's notation, separated by colons; empty: gRPC's defaults, or the "
          "environment variable GRPC_SSL_CIPHER_SUITES; no effect on TLS 1.3");
ABSL_FLAG(std::string, tokens_file, "",
          "file of bearer tokens, one per line: TENANT TOKEN [models] [operator]; empty: calls need no token; "
          "reloaded when it changes");
ABSL_FLAG(std::string, admin_listen, rnnserve::kDefaultAdminListen,
          "host:port of the admin port (HTTP): /metrics, /healthz, /readyz and a status page at /; empty: no admin "
          "port");
ABSL_FLAG(int32_t, metrics_models, 32,
          "number of models with metrics of their own: those in --models at start, then the first that are called; "
          "the others count together as (other)");
ABSL_FLAG(bool, triton_metrics, false,
          "whether /metrics also tells counters under the names of Triton's (nv_inference_request_success, ...)");
ABSL_FLAG(std::string, models, "", "model repository, a folder of NAME/VERSION/model.onnx; empty: none");
ABSL_FLAG(absl::Duration, models_poll, absl::InfiniteDuration(),
          "how often the server scans --models for new versions; it loads a version once two scans find the same "
          "files; inf: at start only");
ABSL_FLAG(std::vector<std::string>, plugin, {},
          "shared libraries with further engines, separated by commas, such as librnnserve_cuda.so; the server "
          "logs and skips a library that cannot run here");
ABSL_FLAG(int64_t, plugin_memory_bytes, 0,
          "maximum bytes of device memory for a plugin's engine; 0: nine tenths of what is free at start");
ABSL_FLAG(std::string, engine, "auto",
          "engine of requests for which neither the request nor its model names one, where it can run them; auto: "
          "the engine measured to be the fastest here");
ABSL_FLAG(double, verify_share, 0,
          "share of calls, 0 to 1, that a second engine runs as well; the server replies once both have run, and "
          "logs and counts the largest difference");
ABSL_FLAG(int32_t, workers, 0,
          "number of threads that run engines; 0: one per CPU that the process may use (affinity, the container's "
          "quota), and those that plugins' devices need");
ABSL_FLAG(bool, cpu_helper, true,
          "whether a second thread shares the work of a slice that runs alone on the cpu engine; it polls for "
          "up to 0.4 ms between a lone caller's calls, and sleeps under load, beside busy processes and where there "
          "is one CPU");
ABSL_FLAG(int32_t, max_message_bytes, 64 << 20, "maximum bytes of a request message, and of a reply's tensors");
ABSL_FLAG(int64_t, memory_limit, 0,
          "maximum memory of the process in bytes; near it the server refuses requests, and default limits shrink "
          "to shares of it; 0: the container's limit, or the machine's memory if that is less");
ABSL_FLAG(
    int64_t, max_bytes_in_flight, int64_t{1} << 30,
    "maximum bytes of the messages of all calls in flight, and again of their outputs, their states and of uploads");
ABSL_FLAG(int32_t, max_calls, 4096,
          "maximum number of calls in flight, and of open streams; the server refuses further ones and says when to "
          "retry");
ABSL_FLAG(int32_t, max_connections, 0,
          "maximum number of connections; 0: 10000, or what the limit of file descriptors allows if that is less");
ABSL_FLAG(absl::Duration, max_connection_idle, absl::Minutes(30),
          "time without calls after which the server closes a connection (GOAWAY), such as 30m or inf");
ABSL_FLAG(absl::Duration, max_connection_age, absl::InfiniteDuration(),
          "age at which the server closes a connection (GOAWAY), such as 1h or inf; calls on it may finish");
ABSL_FLAG(int64_t, queue_sequences, 1 << 16,
          "maximum number of sequences waiting or running; the server refuses further ones and says when to retry");
ABSL_FLAG(absl::Duration, target_slice, absl::Milliseconds(1),
          "time that sequences run together before others may join; up to 32 times as long where none could; "
          "shorter: lower latency, longer: less overhead");
ABSL_FLAG(absl::Duration, max_batch_delay, absl::ZeroDuration(),
          "maximum time that a request waits for others to share its batch; 0: no wait, batches form while workers "
          "are busy");
ABSL_FLAG(int64_t, packed_weight_bytes, int64_t{4} << 30,
          "maximum bytes of the cache of packed weights, which evicts the least recently used");
ABSL_FLAG(int64_t, model_weight_bytes, int64_t{16} << 30,
          "maximum bytes of weights and uploaded files of all loaded models; a sixth of it bounds the cache of inline "
          "weights, for requests that name a fingerprint");
ABSL_FLAG(absl::Duration, max_call_duration, absl::Minutes(10),
          "maximum duration of a call: the deadline of calls with none or a later one, such as 30s or 10m");
ABSL_FLAG(int64_t, session_bytes, int64_t{16} << 30,
          "maximum bytes of all sessions: states, checkpoints and the windows agreed at Open; at the limit the "
          "server refuses new sessions");
ABSL_FLAG(int64_t, max_sessions, 1 << 20, "maximum number of live sessions of one tenant");
ABSL_FLAG(double, max_tenant_share, 1,
          "maximum share, 0 to 1, of --session_bytes and of --model_weight_bytes that one tenant's sessions and models "
          "may take");
ABSL_FLAG(double, session_operations_per_second, 0,
          "maximum operations per second on one tenant's sessions; 0: no limit");
ABSL_FLAG(absl::Duration, session_idle_timeout, absl::Minutes(10),
          "idle time after which a session ends, unless the session asks for another, of up to 24h or this");
ABSL_FLAG(std::string, store, "",
          "Redis or Valkey for durable sessions, shared with the servers that go on with them: redis://HOST:PORT, "
          "redis+sentinel://HOST:PORT,.../MASTER, redis+cluster://HOST:PORT,..., rediss:// with TLS; "
          "?password_file=PATH&ca=PATH; empty: sessions end with the process");
ABSL_FLAG(std::string, session_secret_file, "",
          "file of the secret that the servers of one --store share, of 32 characters or more; a second line holds "
          "one more that is valid; reloaded when it changes");
ABSL_FLAG(absl::Duration, drain_delay, absl::ZeroDuration(),
          "time after SIGTERM in which the server still accepts calls while health is NOT_SERVING, so that load "
          "balancers stop routing");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(30),
          "maximum time from SIGTERM to exit, --drain_delay included, such as 500ms or 30s");
ABSL_FLAG(std::string, log_level, "info", "debug, info, warning, error or off");
ABSL_FLAG(std::string, log_format, "text", "text or json, one line per event");
