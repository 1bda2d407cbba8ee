// SPDX-License-Identifier: Apache-2.0
#include "server/config/flags.h"

ABSL_FLAG(std::string, config, "",
          "file of settings, a line each as in `max_calls: 4096`; flags on the command line go before what it says; "
          "`rnnserve config print` tells what is in force");
ABSL_FLAG(std::vector<std::string>, listen, {"0.0.0.0:50051"},
          "addresses to listen on, separated by commas: host:port, [::]:port or unix:path; port 0 picks a free one");
ABSL_FLAG(std::string, port_file, "", "file that gets the port of the first address once the server listens");
ABSL_FLAG(std::string, tls_cert, "",
          "PEM file of the server's certificate and its chain; empty: no TLS; read again when it changes");
ABSL_FLAG(std::string, tls_key, "", "PEM file of the certificate's private key");
ABSL_FLAG(std::string, tls_client_ca, "", "PEM file of who signs callers' certificates; empty: callers need none");
ABSL_FLAG(std::string, tls_min_version, "1.2", "the oldest version of TLS that is spoken: 1.2 or 1.3");
ABSL_FLAG(
    std::string, tls_ciphers, "",
    "cipher suites of TLS 1.2 in OpenSSL's notation, separated by colons; empty: gRPC's choice, as the environment "
    "variable GRPC_SSL_CIPHER_SUITES may have it; TLS 1.3 has its own");
ABSL_FLAG(
    std::string, tokens_file, "",
    "file of bearer tokens, a line each: TENANT TOKEN [models] [operator]; empty: none needed; read again when it "
    "changes");
ABSL_FLAG(std::string, admin_listen, rnnserve::kDefaultAdminListen,
          "host:port of the admin port (HTTP): /metrics, /healthz, /readyz and a status page at /; empty: none");
ABSL_FLAG(std::string, admin_port_file, "", "file that gets the admin port's number once it listens");
ABSL_FLAG(int32_t, metrics_models, 32,
          "models with metrics of their own: those that are in --models at the start, then the first ones that are "
          "called; further ones are counted together as (other), so that a scrape stays small");
ABSL_FLAG(std::string, models, "", "folder of models, NAME/VERSION/model.onnx; empty: none");
ABSL_FLAG(absl::Duration, models_poll, absl::InfiniteDuration(),
          "how often --models is looked at for new versions, each read once its files are the same in two looks; inf: "
          "at the start alone");
ABSL_FLAG(std::vector<std::string>, plugin, {},
          "shared libraries with further engines, separated by commas, e.g. librnnserve_cuda.so; one that cannot serve "
          "here is logged and left out");
ABSL_FLAG(int64_t, plugin_memory_bytes, 0,
          "bytes that a plugin's engine may hold of its device; 0: nine tenths of what is free at the start");
ABSL_FLAG(int32_t, plugin_device, 0, "ordinal of the device that a plugin's engine runs on");
ABSL_FLAG(std::string, engine, "auto",
          "engine of requests that name none and whose model names none, where it can run them; auto: whichever was "
          "measured to be the fastest here");
ABSL_FLAG(
    double, verify_share, 0,
    "share of the calls, 0 to 1, that run on a second engine as well; the largest difference is logged and counted. "
    "Such a call is answered once both have run");
ABSL_FLAG(
    int32_t, workers, 0,
    "threads that run engines; 0: one for each CPU that the process may use (affinity, the container's quota), and "
    "those that the devices of plugins want");
ABSL_FLAG(
    bool, cpu_helper, true,
    "a second thread shares the work of a slice that runs alone on the cpu engine; it sleeps under load and where "
    "there is one CPU");
ABSL_FLAG(int32_t, max_message_bytes, 64 << 20, "bytes of a request message");
ABSL_FLAG(int64_t, max_tensor_elements, int64_t{1} << 26, "elements of X or of an output");
ABSL_FLAG(int64_t, max_steps, 1 << 24, "steps of a request or a chunk");
ABSL_FLAG(int64_t, memory_limit, 0,
          "bytes that the process may take; near it requests are refused, and defaults of other limits are lowered to "
          "shares of it; 0: the limit of the container, or the machine's memory if that is less");
ABSL_FLAG(int64_t, max_transport_bytes, int64_t{1} << 30,
          "bytes on their way in, all connections together, besides messages that have been let in");
ABSL_FLAG(int64_t, max_reply_bytes, 64 << 20, "bytes of a reply's tensors");
ABSL_FLAG(int64_t, max_request_bytes_in_flight, int64_t{1} << 30, "bytes of the messages of all requests being served");
ABSL_FLAG(int64_t, max_output_bytes_in_flight, int64_t{1} << 30,
          "bytes of outputs and states of all requests being served");
ABSL_FLAG(int32_t, max_calls, 4096, "calls being served at once; further ones are told to come again");
ABSL_FLAG(int32_t, max_connections, 0,
          "connections at once; 0: 10000, or what the limit of file descriptors allows if that is less");
ABSL_FLAG(absl::Duration, max_connection_idle, absl::Minutes(30),
          "a connection without calls for so long is told to go, such as 30m or inf");
ABSL_FLAG(absl::Duration, max_connection_age, absl::InfiniteDuration(),
          "a connection of this age is told to go, such as 1h or inf; it may finish its calls");
ABSL_FLAG(absl::Duration, max_connection_age_grace, absl::Minutes(15),
          "how long a connection that was told to go may finish its calls; longer than --max_call_duration");
ABSL_FLAG(int32_t, expected_calls, 64, "about as many Infer calls as arrive at the same moment");
ABSL_FLAG(int64_t, queue_sequences, 1 << 16, "sequences waiting or running; further ones are told to come again");
ABSL_FLAG(
    absl::Duration, target_slice, absl::Milliseconds(1),
    "how long sequences run together before others may join; shorter: sooner answers, longer: a little less work");
ABSL_FLAG(absl::Duration, short_slice, absl::Microseconds(200),
          "a lone caller's slices that are expected to take no longer run on the thread that takes calls in, without "
          "the way to a worker and back (among several callers: at most 60us); 0: none");
ABSL_FLAG(
    absl::Duration, poll_ahead, absl::Microseconds(200),
    "how long the thread that takes calls in looks for a lone caller's next call before it sleeps, if the last one "
    "came as soon; costs CPU time, saves the caller the way out of sleep; 0: it sleeps at once");
ABSL_FLAG(absl::Duration, max_batch_delay, absl::ZeroDuration(),
          "how long a request waits for others to share its batch; 0: not at all, a busy server batches by itself");
ABSL_FLAG(absl::Duration, max_priority_wait, absl::Seconds(1),
          "after waiting so long a request is served whatever its priority, in at least every fourth slice");
ABSL_FLAG(int64_t, packed_weight_bytes, int64_t{4} << 30, "bytes of packed weights kept, least recently used go first");
ABSL_FLAG(int64_t, inline_weight_bytes, int64_t{1} << 30,
          "bytes of weights kept for requests that name a fingerprint, least recently used go first");
ABSL_FLAG(int64_t, model_weight_bytes, int64_t{16} << 30, "bytes of weights of all loaded models");
ABSL_FLAG(int64_t, max_tenant_models, 1000, "models that one tenant may have loaded");
ABSL_FLAG(int64_t, max_tenant_model_bytes, int64_t{16} << 30, "bytes of weights of one tenant's loaded models");
ABSL_FLAG(absl::Duration, max_call_duration, absl::Minutes(10),
          "deadline of a call that has none or a later one, such as 30s or 10m");
ABSL_FLAG(absl::Duration, max_send_duration, absl::Minutes(2),
          "a caller that has not taken its reply by then loses it");
ABSL_FLAG(
    int64_t, session_bytes, int64_t{16} << 30,
    "bytes of all sessions: states, checkpoints and the windows agreed at Open; at the limit new ones are refused");
ABSL_FLAG(int64_t, max_sessions, 1 << 20, "live sessions of one tenant");
ABSL_FLAG(int64_t, max_tenant_session_bytes, int64_t{16} << 30,
          "bytes of one tenant's sessions, as --session_bytes counts them");
ABSL_FLAG(double, session_operations_per_second, 0, "operations of one tenant's sessions a second; 0: no limit");
ABSL_FLAG(absl::Duration, session_idle_timeout, absl::Minutes(10),
          "idleness that ends a session which asks for no other");
ABSL_FLAG(absl::Duration, max_session_idle_timeout, absl::Hours(24), "idleness that a session may ask for");
ABSL_FLAG(int64_t, max_streams, 4096, "streams open at once; further ones are told to come again");
ABSL_FLAG(int32_t, max_streams_per_connection, 1024, "calls and streams at once on one connection");
ABSL_FLAG(absl::Duration, drain_delay, absl::ZeroDuration(),
          "after SIGTERM calls are still let in for so long, while health says NOT_SERVING and balancers look away");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(30),
          "the server leaves at the latest so long after SIGTERM, --drain_delay included, such as 500ms or 30s");
ABSL_FLAG(std::string, probe, "alive",
          "what `rnnserve healthcheck` asks for: alive (it turns), or ready (it takes work)");
ABSL_FLAG(std::string, log_level, "info", "debug, info, warning, error or off");
ABSL_FLAG(std::string, log_format, "text", "text or json, a line for each event");
