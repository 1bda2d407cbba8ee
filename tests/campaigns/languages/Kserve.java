// SPDX-License-Identifier: Apache-2.0
// A caller of the Open Inference Protocol in Java: as kserve.go.
import com.google.protobuf.ByteString;
import inference.GRPCInferenceServiceGrpc;
import inference.GrpcService.InferParameter;
import inference.GrpcService.ModelInferRequest;
import inference.GrpcService.ModelInferResponse;
import inference.GrpcService.ModelStreamInferResponse;
import inference.GrpcService.RepositoryIndexRequest;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.StreamObserver;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.StringJoiner;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public final class Kserve {
  private static ModelInferRequest.Builder request(float... values) {
    ByteBuffer raw = ByteBuffer.allocate(4 * values.length).order(ByteOrder.LITTLE_ENDIAN);
    for (float value : values) raw.putFloat(value);
    return ModelInferRequest.newBuilder().setModelName("remembering").addRawInputContents(ByteString.copyFrom(raw.array()))
        .addInputs(ModelInferRequest.InferInputTensor.newBuilder().setName("X").setDatatype("FP32")
            .addShape(values.length).addShape(1).addShape(1))
        .addOutputs(ModelInferRequest.InferRequestedOutputTensor.newBuilder().setName("Y_h"));
  }

  private static ModelInferRequest step(String id, boolean start, boolean end, float... values) {
    return request(values).putParameters("sequence_id", InferParameter.newBuilder().setStringParam(id).build())
        .putParameters("sequence_start", InferParameter.newBuilder().setBoolParam(start).build())
        .putParameters("sequence_end", InferParameter.newBuilder().setBoolParam(end).build()).build();
  }

  private static String state(ModelInferResponse reply) {
    StringJoiner said = new StringJoiner(" ", "[", "]");
    ByteBuffer raw = reply.getRawOutputContents(0).asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    while (raw.hasRemaining()) said.add(String.valueOf((int) raw.getFloat()));
    return said.toString();
  }

  /** What comes on a stream; an error ends the program. */
  private static final class Answers implements StreamObserver<ModelStreamInferResponse> {
    final BlockingQueue<ModelStreamInferResponse> came = new LinkedBlockingQueue<>();

    @Override public void onNext(ModelStreamInferResponse answer) {
      came.add(answer);
    }

    @Override public void onError(Throwable error) {
      error.printStackTrace();
      System.exit(1);
    }

    @Override public void onCompleted() {}
  }

  public static void main(String[] arguments) throws Exception {
    ManagedChannel channel = NettyChannelBuilder.forTarget(arguments[0]).usePlaintext().build();
    String id = arguments[1];
    var client = GRPCInferenceServiceGrpc.newBlockingStub(channel).withDeadlineAfter(1, TimeUnit.MINUTES);
    for (var model : client.repositoryIndex(RepositoryIndexRequest.getDefaultInstance()).getModelsList()) {
      System.out.println("model " + model.getName() + " " + model.getState());
    }
    System.out.println("unary " + state(client.modelInfer(request(1, 2, 3).build())));

    System.out.println("sequence " + state(client.modelInfer(step(id, true, false, 1))));
    Answers answers = new Answers();
    StreamObserver<ModelInferRequest> stream = GRPCInferenceServiceGrpc.newStub(channel).modelStreamInfer(answers);
    stream.onNext(step(id, false, true, 2, 3));
    System.out.println("sequence " + state(answers.came.poll(1, TimeUnit.MINUTES).getInferResponse()));
    stream.onCompleted();
    try {
      client.modelInfer(step(id, false, false, 1));
    } catch (StatusRuntimeException error) {
      System.out.println("ended " + error.getStatus().getCode().value());
    }
    channel.shutdown().awaitTermination(1, TimeUnit.MINUTES);
  }
}
