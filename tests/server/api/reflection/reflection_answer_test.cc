// SPDX-License-Identifier: Apache-2.0
#include "server/api/reflection/reflection_answer.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/descriptor_database.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "rnnserve/v1/recurrent.pb.h"

namespace rnnserve {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptorProto;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;
using testing::HasSubstr;

constexpr std::array<std::string_view, 2> kServices = {"one.Service", "another.Service"};

ServerReflectionResponse Answer(const ServerReflectionRequest& request) {
  return AnswerReflection(request, kServices, *DescriptorPool::generated_pool());
}

// The files of an answer build a pool of their own: nothing is missing, nothing is there twice.
void ExpectComplete(const ServerReflectionResponse& response, const std::string& symbol) {
  google::protobuf::SimpleDescriptorDatabase files;
  std::set<std::string> names;
  for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
    FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(bytes));
    EXPECT_TRUE(names.insert(file.name()).second) << file.name() << " twice";
    ASSERT_TRUE(files.Add(file));
  }
  DescriptorPool pool(&files);
  EXPECT_NE(pool.FindFileContainingSymbol(symbol), nullptr) << symbol;
}

void ExpectError(const ServerReflectionResponse& response, absl::StatusCode code, const std::string& part) {
  EXPECT_EQ(response.error_response().error_code(), static_cast<int>(code));
  EXPECT_THAT(response.error_response().error_message(), HasSubstr(part));
}

TEST(Reflection, ListsTheServicesItWasTold) {
  ServerReflectionRequest request;
  request.set_host("here");
  request.set_list_services("");
  const ServerReflectionResponse response = Answer(request);
  ASSERT_EQ(response.list_services_response().service_size(), 2);
  EXPECT_EQ(response.list_services_response().service(0).name(), "one.Service");
  EXPECT_EQ(response.list_services_response().service(1).name(), "another.Service");
  EXPECT_EQ(response.valid_host(), "here");
  EXPECT_EQ(response.original_request().SerializeAsString(), request.SerializeAsString());
}

TEST(Reflection, TellsAFileWithAllItsImports) {
  ASSERT_NE(v1::InferRequest::descriptor(), nullptr);  // linked in
  ServerReflectionRequest request;
  request.set_file_containing_symbol("rnnserve.v1.Recurrent");
  ExpectComplete(Answer(request), "rnnserve.v1.Recurrent");
  request.set_file_containing_symbol("rnnserve.v1.Recurrent.Infer");
  ExpectComplete(Answer(request), "rnnserve.v1.InferRequest");
  request.set_file_by_filename("rnnserve/v1/recurrent.proto");
  ExpectComplete(Answer(request), "rnnserve.v1.InferRequest");
}

TEST(Reflection, SaysWhatIsUnknown) {
  ServerReflectionRequest request;
  ExpectError(Answer(request), absl::StatusCode::kInvalidArgument, "nothing");
  request.set_file_by_filename("no/such.proto");
  ExpectError(Answer(request), absl::StatusCode::kNotFound, "no/such.proto");
  request.set_file_containing_symbol("no.Such");
  ExpectError(Answer(request), absl::StatusCode::kNotFound, "no.Such");
  request.set_all_extension_numbers_of_type("no.Such");
  ExpectError(Answer(request), absl::StatusCode::kNotFound, "no.Such");
  request.mutable_file_containing_extension()->set_containing_type("rnnserve.v1.InferRequest");
  request.mutable_file_containing_extension()->set_extension_number(7);
  ExpectError(Answer(request), absl::StatusCode::kNotFound, "extension 7");
}

TEST(Reflection, MessagesOfProto3HaveNoExtensions) {
  ServerReflectionRequest request;
  request.set_all_extension_numbers_of_type("rnnserve.v1.InferRequest");
  const ServerReflectionResponse response = Answer(request);
  EXPECT_EQ(response.all_extension_numbers_response().base_type_name(), "rnnserve.v1.InferRequest");
  EXPECT_EQ(response.all_extension_numbers_response().extension_number_size(), 0);
}

}  // namespace
}  // namespace rnnserve
