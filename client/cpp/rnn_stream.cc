// SPDX-License-Identifier: Apache-2.0
// Plain types in and out; what keeps the stream going is stream_driver.h.
#include "client/cpp/rnn_stream.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "client/cpp/codec.h"
#include "client/cpp/lookup.h"
#include "client/cpp/random_id.h"
#include "client/cpp/session_codec.h"
#include "client/cpp/stream_driver.h"

namespace rnnserve::client {
namespace {

using Answered = absl::StatusOr<StreamDriver::Answered>;

// Room beside the caller's operations for the stream's own questions for the state.
constexpr int32_t kOwnQuestions = 2;

absl::Status Check(const StreamOptions& options) {
  const auto bad = [](std::string_view field, auto value) {
    return FieldError(field, absl::StrCat(absl::string_view(field.data(), field.size()), " of the stream is ", value,
                                          "; expected more than 0"));
  };
  if (options.max_in_flight < 1) return bad("max_in_flight", options.max_in_flight);
  if (options.checkpoint_every < 0) return bad("checkpoint_every", options.checkpoint_every);
  if (options.max_kept_bytes < 1) return bad("max_kept_bytes", options.max_kept_bytes);
  if (options.max_wait.count() < 1) return bad("max_wait", options.max_wait.count());
  return absl::OkStatus();
}

ChunkResult Decode(v1::OperationReply& reply, std::vector<Tensor> outputs) {
  return {std::move(outputs),
          reply.number(),
          reply.position(),
          reply.engine(),
          DecodeDuration(reply.queue_time()),
          DecodeDuration(reply.compute_time())};
}

v1::Operation EncodeChunk(const std::vector<Tensor>& inputs, const FeedOptions& options) {
  v1::Operation operation;
  v1::Chunk& chunk = *operation.mutable_chunk();
  for (const Tensor& tensor : inputs) Encode(tensor, *chunk.add_inputs());
  if (options.outputs) {
    chunk.set_override_outputs(true);
    for (const std::string& output : *options.outputs) chunk.add_outputs(output);
  }
  if (options.timeout) Encode(*options.timeout, *operation.mutable_timeout());
  operation.set_priority(options.priority);
  return operation;
}

}  // namespace

class RnnStream::Impl {
 public:
  Impl(StreamDriver::Candidates candidates, v1::OpenRequest request, const StreamOptions& options,
       StreamDriver::Session session)
      : driver_(std::move(candidates), std::move(request), options, std::move(session)) {}

  // `read` makes the result of a reply.
  template <typename Read>
  auto Ask(v1::Operation operation, Read read) {
    using Result = std::invoke_result_t<Read, StreamDriver::Answered&>;
    auto promise = std::make_shared<std::promise<Result>>();
    std::future<Result> future = promise->get_future();
    driver_.Run(std::move(operation), [promise = std::move(promise), read = std::move(read)](Answered answered) {
      if (!answered.ok()) return promise->set_value(answered.status());
      promise->set_value(read(*answered));
    });
    return future;
  }
  absl::Status Change(v1::Operation operation) {
    return Ask(std::move(operation), [](StreamDriver::Answered&) { return absl::OkStatus(); }).get();
  }
  StreamDriver& driver() { return driver_; }

 private:
  StreamDriver driver_;
};

RnnStream::RnnStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RnnStream::~RnnStream() = default;

absl::StatusOr<std::unique_ptr<RnnStream>> RnnStream::Open(std::vector<std::string> servers, SessionSpec spec,
                                                           StreamOptions options) {
  RETURN_IF_ERROR(Check(options));
  // Every operation that may have to be sent again finds its reply.
  if (!spec.max_in_flight) spec.max_in_flight = options.max_in_flight + kOwnQuestions;
  if (!spec.window_operations) spec.window_operations = 2 * options.max_in_flight;
  v1::OpenRequest request = EncodeOpen(spec);
  StreamDriver::Candidates candidates = StreamDriver::Candidates::Of(SplitAddresses(servers), request.name(), options);
  ASSIGN_OR_RETURN(StreamDriver::Session session, StreamDriver::Open(candidates, request, options));
  return std::unique_ptr<RnnStream>(
      new RnnStream(std::make_unique<Impl>(std::move(candidates), std::move(request), options, std::move(session))));
}

std::future<absl::StatusOr<ChunkResult>> RnnStream::FeedAsync(std::vector<Tensor> inputs, const FeedOptions& options) {
  return impl_->Ask(EncodeChunk(inputs, options), [](StreamDriver::Answered& answered) -> absl::StatusOr<ChunkResult> {
    ASSIGN_OR_RETURN(std::vector<Tensor> outputs, DecodeTensors(*answered.reply.mutable_outputs()));
    return Decode(answered.reply, std::move(outputs));
  });
}

absl::StatusOr<ChunkResult> RnnStream::Feed(std::vector<Tensor> inputs, const FeedOptions& options) {
  return FeedAsync(std::move(inputs), options).get();
}

absl::Status RnnStream::SelectRows(const std::vector<int64_t>& rows) {
  v1::Operation operation;
  operation.mutable_select_rows()->mutable_rows()->Add(rows.begin(), rows.end());
  return impl_->Change(std::move(operation));
}

absl::Status RnnStream::Reset(const std::vector<Tensor>& tensors) {
  v1::Operation operation;
  operation.mutable_reset();
  if (!tensors.empty()) Encode(tensors, *operation.mutable_reset()->mutable_state());
  return impl_->Change(std::move(operation));
}

absl::Status RnnStream::SetState(const SessionState& state, bool force) {
  v1::Operation operation;
  Encode(state.tensors, *operation.mutable_set_state()->mutable_state());
  operation.mutable_set_state()->set_fingerprint(state.fingerprint);
  operation.mutable_set_state()->set_force(force);
  return impl_->Change(std::move(operation));
}

absl::Status RnnStream::Checkpoint(const std::string& name) {
  v1::Operation operation;
  operation.mutable_checkpoint()->set_name(name);
  return impl_->Change(std::move(operation));
}

absl::Status RnnStream::Rewind(const std::string& name) {
  v1::Operation operation;
  operation.mutable_rewind()->set_checkpoint(name);
  return impl_->Change(std::move(operation));
}

absl::StatusOr<SessionState> RnnStream::State() {
  v1::Operation operation;
  operation.mutable_get_state();
  return impl_
      ->Ask(std::move(operation),
            [](StreamDriver::Answered& answered) { return DecodeState(*answered.reply.mutable_get_state()); })
      .get();
}

absl::StatusOr<std::unique_ptr<RnnStream>> RnnStream::Fork(const std::string& name) {
  v1::Operation operation;
  operation.mutable_fork()->set_request_id(RandomId());
  if (!name.empty()) operation.mutable_fork()->add_names(name);
  const Answered answered =
      impl_->Ask(std::move(operation), [](StreamDriver::Answered& reply) { return Answered(std::move(reply)); }).get();
  if (!answered.ok()) return answered.status();
  if (answered->reply.fork().sessions_size() != 1) {
    return absl::InternalError("the server's reply cannot be used: a fork without a session");
  }
  StreamDriver& parent = impl_->driver();
  v1::OpenRequest request = parent.request();
  request.set_name(name);
  request.set_attach(false);
  request.set_must_exist(false);
  StreamJournal::Agreed agreed = parent.agreed();
  agreed.owner_epoch = answered->reply.fork().owner_epoch();
  StreamDriver::Session session{answered->reply.fork().sessions(0),
                                parent.fingerprint(),
                                answered->reply.fork().number(),
                                agreed,
                                answered->server,
                                answered->reply.position(),
                                answered->route,
                                StreamJournal::Origin::kElsewhere};
  return std::unique_ptr<RnnStream>(new RnnStream(
      std::make_unique<Impl>(parent.candidates(), std::move(request), parent.options(), std::move(session))));
}

absl::StatusOr<SessionState> RnnStream::Close() {
  v1::Operation operation;
  operation.mutable_close()->set_return_state(true);
  const std::string fingerprint = impl_->driver().fingerprint();
  return impl_
      ->Ask(std::move(operation),
            [fingerprint](StreamDriver::Answered& answered) -> absl::StatusOr<SessionState> {
              v1::OperationReply& reply = answered.reply;
              ASSIGN_OR_RETURN(std::vector<Tensor> tensors,
                               DecodeTensors(*reply.mutable_final_state()->mutable_tensors()));
              return SessionState{reply.number(), reply.position(), fingerprint, std::move(tensors)};
            })
      .get();
}

std::string RnnStream::key() const { return impl_->driver().key(); }
std::string RnnStream::server() const { return impl_->driver().address(); }
const std::string& RnnStream::fingerprint() const { return impl_->driver().fingerprint(); }
StreamRepairs RnnStream::repairs() const { return impl_->driver().repairs(); }

}  // namespace rnnserve::client
