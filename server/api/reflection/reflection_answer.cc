// SPDX-License-Identifier: Apache-2.0
#include "server/api/reflection/reflection_answer.h"

#include <google/protobuf/descriptor.pb.h>

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rnnserve {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ErrorResponse;
using grpc::reflection::v1::ExtensionNumberResponse;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

void Refuse(absl::StatusCode code, const std::string& message, ServerReflectionResponse& response) {
  ErrorResponse& error = *response.mutable_error_response();
  error.set_error_code(static_cast<int>(code));
  error.set_error_message(message);
}

void AddWithImports(const FileDescriptor& file, std::set<const FileDescriptor*>& seen,
                    ServerReflectionResponse& response) {
  if (!seen.insert(&file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  response.mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
  for (int k = 0; k < file.dependency_count(); ++k) AddWithImports(*file.dependency(k), seen, response);
}

void AddFile(const FileDescriptor* file, const std::string& wanted, ServerReflectionResponse& response) {
  if (file == nullptr) return Refuse(absl::StatusCode::kNotFound, absl::StrCat("nothing here is ", wanted), response);
  std::set<const FileDescriptor*> seen;
  AddWithImports(*file, seen, response);
}

void AddExtension(const std::string& type_name, int number, const DescriptorPool& pool,
                  ServerReflectionResponse& response) {
  const Descriptor* type = pool.FindMessageTypeByName(type_name);
  const FieldDescriptor* extension = type == nullptr ? nullptr : pool.FindExtensionByNumber(type, number);
  AddFile(extension == nullptr ? nullptr : extension->file(),
          absl::StrCat("extension ", number, " of '", type_name, "'"), response);
}

void AddExtensionNumbers(const std::string& type_name, const DescriptorPool& pool, ServerReflectionResponse& response) {
  const Descriptor* type = pool.FindMessageTypeByName(type_name);
  if (type == nullptr) {
    return Refuse(absl::StatusCode::kNotFound, absl::StrCat("no message is called '", type_name, "'"), response);
  }
  std::vector<const FieldDescriptor*> extensions;
  pool.FindAllExtensions(type, &extensions);
  ExtensionNumberResponse& numbers = *response.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(type_name);
  for (const FieldDescriptor* extension : extensions) numbers.add_extension_number(extension->number());
}

}  // namespace

ServerReflectionResponse AnswerReflection(const ServerReflectionRequest& request,
                                          std::span<const std::string_view> services, const DescriptorPool& pool) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      AddFile(pool.FindFileByName(request.file_by_filename()),
              absl::StrCat("a file called '", request.file_by_filename(), "'"), response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      AddFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
              absl::StrCat("called '", request.file_containing_symbol(), "'"), response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      AddExtension(request.file_containing_extension().containing_type(),
                   request.file_containing_extension().extension_number(), pool, response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      AddExtensionNumbers(request.all_extension_numbers_of_type(), pool, response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string_view service : services) {
        response.mutable_list_services_response()->add_service()->set_name(std::string(service));
      }
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      Refuse(absl::StatusCode::kInvalidArgument, "the request asks for nothing that is known here", response);
  }
  return response;
}

}  // namespace rnnserve
