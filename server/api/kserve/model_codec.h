// SPDX-License-Identifier: Apache-2.0
// Models as the Open Inference Protocol describes them.
#pragma once

#include "inference/grpc_service.pb.h"
#include "server/models/model_store.h"

namespace rnnserve::kserve {

// Whether a model's requests stand alone, or are chunks of sequences: then its states are not listed.
enum class ViewAs { kWhole, kSequence };

void EncodeMetadata(const LoadedModel& loaded, ViewAs view, inference::ModelMetadataResponse& response);
void EncodeConfig(const LoadedModel& loaded, ViewAs view, inference::ModelConfig& config);

}  // namespace rnnserve::kserve
