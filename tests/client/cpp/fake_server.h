// SPDX-License-Identifier: Apache-2.0
// A server in this process that answers with what a test says and keeps what it was asked.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "rnnserve/v1/models.pb.h"
#include "rnnserve/v1/recurrent.pb.h"

namespace rnnserve {

// A refusal: code 0 is OK. With details they travel as a server sends them.
struct FakeStatus {
  int code = 0;
  std::string message = {};
  std::vector<google::protobuf::Any> details = {};
};

template <typename Detail>
google::protobuf::Any Pack(const Detail& detail) {
  google::protobuf::Any any;
  any.PackFrom(detail);
  return any;
}
google::protobuf::Any FieldDetail(const std::string& field, const std::string& description);
google::protobuf::Any ReasonDetail(const std::string& reason);

class FakeServer {
 public:
  explicit FakeServer(int port = 0);
  ~FakeServer();
  // Not if another process had the port.
  bool is_there() const;

  const std::string& address() const { return address_; }
  int port() const { return port_; }

  // Set before the calls they answer.
  std::function<FakeStatus(const v1::InferRequest&, v1::InferResponse&)> on_infer;
  std::function<FakeStatus(const v1::LoadRequest&, v1::LoadResponse&)> on_load;
  std::function<FakeStatus(const v1::UploadRequest::Begin&, const std::string& file, v1::LoadResponse&)> on_upload;
  // Fills the messages of the reply.
  std::function<FakeStatus(const v1::DownloadRequest&, std::vector<v1::DownloadResponse>&)> on_download;
  std::function<FakeStatus(const v1::UnloadRequest&)> on_unload;
  std::function<FakeStatus(const v1::GetModelRequest&, v1::GetModelResponse&)> on_get;
  std::function<FakeStatus(v1::ListModelsResponse&)> on_list;
  void SetServing(bool serving);

 private:
  struct Services;
  std::unique_ptr<Services> services_;
  int port_ = 0;
  std::string address_;
};

}  // namespace rnnserve
